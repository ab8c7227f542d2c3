// pgx: the native interface (statement cache, all exec modes, batches, COPY, types, transactions, notifications) and its face of database/sql.
package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
)

var ctx = context.Background()

func shown(err error) string {
	var found *pgconn.PgError
	if errors.As(err, &found) {
		return fmt.Sprintf("%s %s %s|%s|%s|%d|%s.%s.%s %s", found.Severity, found.Code, found.Message, found.Detail, found.Hint, found.Position, found.SchemaName, found.TableName, found.ColumnName, found.ConstraintName)
	}
	if err != nil {
		return strings.SplitN(err.Error(), "\n", 2)[0]
	}
	return "no error"
}

// rows prints what a query gives: tag, columns with their types and formats, values with their Go types.
func rows(label string, found pgx.Rows, err error) {
	if err != nil {
		fmt.Println(label+":", shown(err))
		return
	}
	defer found.Close()
	var fields []string
	for _, f := range found.FieldDescriptions() {
		kind := fmt.Sprint(f.DataTypeOID)
		if f.DataTypeOID >= 16384 {
			kind = "a user's"
		}
		fields = append(fields, fmt.Sprintf("%s %s %d %d", f.Name, kind, f.TypeModifier, f.Format))
	}
	fmt.Println(label+":", fields)
	for found.Next() {
		values, err := found.Values()
		if err != nil {
			fmt.Println("  values:", shown(err))
			continue
		}
		var line []string
		for _, v := range values {
			if t, ok := v.(time.Time); ok {
				v = t.UTC().Format(time.RFC3339Nano)
			}
			line = append(line, fmt.Sprintf("%T %v", v, v))
		}
		fmt.Println("  ", strings.Join(line, ", "))
	}
	found.Close()
	fmt.Println("  ", found.CommandTag(), shown(found.Err()))
}

func query(c *pgx.Conn, text string, arguments ...any) {
	found, err := c.Query(ctx, text, arguments...)
	rows(text, found, err)
}

func main() {
	c, err := pgx.Connect(ctx, "")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	defer c.Close(ctx)
	fmt.Println(c.PgConn().ParameterStatus("server_encoding"), c.PgConn().ParameterStatus("integer_datetimes"), string(rune(c.PgConn().TxStatus())))
	types(c)
	modes(c)
	batches(c)
	copying(c)
	transactions(c)
	usersTypes(c)
	messages(c)
	standard()
}

func types(c *pgx.Conn) {
	fmt.Println("== types")
	query(c, "create table t (id serial primary key, name varchar(20) not null unique, n numeric(10,2), at timestamptz, j jsonb, a int[])")
	at := time.Date(2024, 1, 2, 3, 4, 5, 678901000, time.UTC)
	numeric := pgtype.Numeric{}
	_ = numeric.Scan("12345678901234567890.5")
	for _, p := range []struct {
		kind  string
		value any
	}{
		{"int2", int16(-5)}, {"int4", 7}, {"int8", int64(1 << 40)}, {"float4", float32(1.5)}, {"float8", 0.1}, {"numeric", numeric}, {"text", "ünï"}, {"varchar", "v"}, {"char(4)", "c"}, {"name", "n"}, {"bool", true}, {"bytea", []byte{0, 255}},
		{"date", at}, {"timestamp", at}, {"timestamptz", at}, {"time", pgtype.Time{Microseconds: 3600_000_001, Valid: true}}, {"interval", pgtype.Interval{Months: 14, Days: 3, Microseconds: 5, Valid: true}}, {"uuid", [16]byte{1, 2, 3}},
		{"json", map[string]any{"a": 1}}, {"jsonb", []any{1, nil, "x"}}, {"int4[]", []int32{1, 2}}, {"text[]", []string{"a,b", ""}}, {"int4[]", [][]int32{{1, 2}, {3, 4}}}, {"timestamptz[]", []time.Time{at}}, {"uuid[]", [][16]byte{{9}}},
		{"oid", uint32(4294967295)}, {"\"char\"", "q"}, {"text", nil}, {"int4[]", []int32{}}, {"numeric", "NaN"}, {"float8", "Infinity"}, {"interval", time.Hour},
	} {
		query(c, "select $1::"+p.kind+" as v", p.value)
	}
	query(c, "insert into t (name, n, at, j, a) values ($1, $2, $3, $4, $5) returning *", "one", 1.5, at, map[string]int{"a": 1}, []int{1, 2})
	query(c, "select name from t where id = $1 and at > $2 and a && $3 and j @> $4 and n between $5 and $6 limit $7", 1, time.Unix(0, 0), []int{2, 9}, `{"a": 1}`, 0, "10", 5)
	query(c, "select name from t where name = any($1) or id = any($2)", []string{"one"}, []int{5})
	query(c, "select $1 || 'x', coalesce($2, 1), $3::text", "a", nil, "c")
	query(c, "select $1::int", "x")
	query(c, "select row(1, 'a'::text, null::int), array[row(1, 2)], null, 'u', '2024-02-29'::date, 'infinity'::timestamptz, 'pg_class'::regclass, '{{1,NULL}}'::int[]")
	type person struct {
		ID   int
		Name string
	}
	found, _ := c.Query(ctx, "select id, name from t")
	people, err := pgx.CollectRows(found, pgx.RowToStructByName[person])
	fmt.Println(people, shown(err))
	var n int
	fmt.Println(shown(c.QueryRow(ctx, "select 1 where false").Scan(&n)))
}

func modes(c *pgx.Conn) {
	fmt.Println("== modes")
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		for range 2 {
			query(c, "select id, name, n, $2::text from t where id = $1 and name <> $2", mode, 1, "it's")
		}
	}
	_, err := c.Prepare(ctx, "mine", "select id, $1::date from t where name = $2")
	fmt.Println(shown(err))
	query(c, "mine", time.Date(2024, 5, 6, 0, 0, 0, 0, time.UTC), "one")
	query(c, "alter table t add extra int default 5")
	query(c, "select * from t where id = $1", 1)
	query(c, "alter table t drop extra")
	query(c, "select * from t where id = $1", 1)
	query(c, "select * from t where id = $1", 1)
	fmt.Println(shown(c.Deallocate(ctx, "mine")), shown(c.DeallocateAll(ctx)))
	results, err := c.PgConn().Exec(ctx, "select 1; update t set n = 2; select 'x' where false; ").ReadAll()
	for _, r := range results {
		fmt.Println(r.CommandTag, r.Rows)
	}
	fmt.Println(shown(err))
	statement, err := c.PgConn().Prepare(ctx, "s", "select $1 = any(a), n + $2, $3::jsonb from t", nil)
	fmt.Println(statement.ParamOIDs, shown(err))
}

func batches(c *pgx.Conn) {
	fmt.Println("== batches")
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec} {
		batch := &pgx.Batch{}
		for i := range 3 {
			batch.Queue("insert into t (name) values ($1) returning id", fmt.Sprint("batch", int(mode), i)).QueryRow(func(row pgx.Row) error {
				var id int
				err := row.Scan(&id)
				fmt.Println(id)
				return err
			})
		}
		batch.Queue("select count(*) from t")
		batch.Queue("select 1 / (id - 1) from t where id = 1")
		batch.Queue("select 2")
		fmt.Println(shown(c.SendBatch(ctx, batch).Close()))
	}
	query(c, "select count(*) from t")
	p := c.PgConn().StartPipeline(ctx)
	p.SendQueryParams("select $1::int", [][]byte{[]byte("1")}, nil, nil, nil)
	p.SendPrepare("p1", "select $1::text", nil)
	_ = p.Sync()
	p.SendQueryParams("select 1 / (id - 1) from t where id = 1", nil, nil, nil, nil)
	p.SendQueryParams("select 3", nil, nil, nil, nil)
	_ = p.Sync()
	p.SendQueryPrepared("p1", [][]byte{[]byte("x")}, nil, nil)
	_ = p.Sync()
	for {
		result, err := p.GetResults()
		if err == nil && result == nil {
			break
		}
		switch r := result.(type) {
		case *pgconn.ResultReader:
			read := r.Read()
			fmt.Println("result", read.Rows, read.CommandTag, shown(read.Err))
		case *pgconn.StatementDescription:
			fmt.Println("prepared", r.ParamOIDs, len(r.Fields))
		case *pgconn.PipelineSync:
			fmt.Println("sync")
		default:
			fmt.Println(shown(err))
		}
	}
	fmt.Println(shown(p.Close()))
}

func copying(c *pgx.Conn) {
	fmt.Println("== copying")
	query(c, "create table c (a int, b text, d date, n numeric, j jsonb, u uuid, ts text[])")
	at := time.Date(2024, 1, 2, 0, 0, 0, 0, time.UTC)
	n, err := c.CopyFrom(ctx, pgx.Identifier{"c"}, []string{"a", "b", "d", "n", "j", "u", "ts"}, pgx.CopyFromRows([][]any{{1, "x", at, 1.5, map[string]int{"a": 1}, [16]byte{1}, []string{"a", "b"}}, {2, nil, nil, nil, nil, nil, nil}}))
	fmt.Println(n, shown(err))
	_, err = c.CopyFrom(ctx, pgx.Identifier{"t"}, []string{"name"}, pgx.CopyFromRows([][]any{{"same"}, {"same"}}))
	fmt.Println(shown(err))
	var out bytes.Buffer
	tag, err := c.PgConn().CopyTo(ctx, &out, "copy c to stdout (format csv, header)")
	fmt.Println(tag, shown(err), out.String())
	tag, err = c.PgConn().CopyFrom(ctx, strings.NewReader("3,three\n4,\n"), "copy c (a, b) from stdin csv")
	fmt.Println(tag, shown(err))
	tag, err = c.PgConn().CopyFrom(ctx, strings.NewReader("x,three\n"), "copy c (a, b) from stdin csv")
	fmt.Println(tag, shown(err))
}

func transactions(c *pgx.Conn) {
	fmt.Println("== transactions")
	err := pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "insert into t (name) values ('tx')")
		inner, _ := tx.Begin(ctx)
		_, failed := inner.Exec(ctx, "insert into t (name) values ('tx')")
		fmt.Println(shown(failed), shown(inner.Rollback(ctx)))
		return err
	})
	fmt.Println(shown(err))
	tx, _ := c.Begin(ctx)
	_, err = tx.Exec(ctx, "select 1/0")
	fmt.Println(shown(err), string(rune(c.PgConn().TxStatus())))
	fmt.Println(shown(tx.Commit(ctx)))
	for _, options := range []pgx.TxOptions{{AccessMode: pgx.ReadOnly}, {IsoLevel: pgx.ReadCommitted, DeferrableMode: pgx.NotDeferrable}} {
		tx, err := c.BeginTx(ctx, options)
		if err != nil {
			fmt.Println(shown(err))
			continue
		}
		var level, only string
		_ = tx.QueryRow(ctx, "select current_setting('transaction_isolation'), current_setting('transaction_read_only')").Scan(&level, &only)
		_, err = tx.Exec(ctx, "insert into t (name) values ('only')")
		fmt.Println(level, only, shown(err), shown(tx.Rollback(ctx)))
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	other, _ := pgx.Connect(ctx, "")
	_, err = other.Exec(short, "select pg_sleep(20)")
	fmt.Println(err != nil, other.IsClosed())
	fmt.Println(shown(other.Close(ctx)))
	pool, err := pgxpool.New(ctx, "pool_max_conns=2")
	fmt.Println(shown(err))
	var one int
	fmt.Println(shown(pool.QueryRow(ctx, "select 1").Scan(&one)), one, pool.Stat().TotalConns())
	pool.Close()
}

func usersTypes(c *pgx.Conn) {
	fmt.Println("== types of users")
	query(c, "create type mood as enum ('sad', 'ok')")
	query(c, "create type pair as (a int, b text)")
	query(c, "create domain small as int check (value < 10)")
	for _, name := range []string{"mood", "_mood", "pair", "_pair", "small"} {
		kind, err := c.LoadType(ctx, name)
		if err != nil {
			fmt.Println(name, shown(err))
			continue
		}
		c.TypeMap().RegisterType(kind)
		fmt.Println(kind.Name, fmt.Sprintf("%T", kind.Codec))
	}
	kinds, err := c.LoadTypes(ctx, []string{"mood", "pair", "small"})
	for _, kind := range kinds {
		fmt.Println(kind.Name, fmt.Sprintf("%T", kind.Codec))
	}
	fmt.Println(shown(err))
	query(c, "select $1::mood, $2::mood[], row(1, 'x')::pair, array[row(2, null)::pair], $3::small", "sad", []string{"ok", "sad"}, 5)
	query(c, "select $1::mood", "glad")
	query(c, "select $1::small", 10)
}

func messages(c *pgx.Conn) {
	fmt.Println("== messages")
	other, _ := pgx.Connect(ctx, "application_name=listener")
	query(other, "listen there")
	query(c, "select pg_notify('there', 'hello')")
	short, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	heard, err := other.WaitForNotification(short)
	if err == nil {
		fmt.Println(heard.Channel, heard.Payload)
	}
	_ = other.Close(ctx)
	for _, text := range []string{"selec 1", "select nothing from t", "select * from nowhere", "insert into t (name) values (null)", "insert into t (name) values ('one')", "insert into t (name) values (repeat('x', 21))", "create table t (a int)", "select 'x'::int", ""} {
		query(c, text)
	}
}

// standard is what an application with database/sql does.
func standard() {
	fmt.Println("== database/sql")
	db, _ := sql.Open("pgx", "")
	defer db.Close()
	result, err := db.Exec("update t set n = $1 where id = $2", 5, 1)
	n, _ := result.RowsAffected()
	fmt.Println(n, shown(err))
	found, err := db.Query("select id, name, n, at is null as missing from t where id < $1 order by id", 3)
	fmt.Println(shown(err))
	kinds, _ := found.ColumnTypes()
	for _, kind := range kinds {
		length, hasLength := kind.Length()
		precision, scale, hasScale := kind.DecimalSize()
		fmt.Println(kind.Name(), kind.DatabaseTypeName(), kind.ScanType(), length, hasLength, precision, scale, hasScale)
	}
	for found.Next() {
		var id int
		var name string
		var number sql.NullFloat64
		var missing bool
		fmt.Println(shown(found.Scan(&id, &name, &number, &missing)), id, name, number, missing)
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	fmt.Println(shown(err))
	_, err = tx.Exec("delete from t")
	fmt.Println(shown(err), shown(tx.Rollback()))
	statement, err := db.Prepare("select $1::int + $2::int")
	fmt.Println(shown(err))
	var sum int
	fmt.Println(shown(statement.QueryRow(1, 2).Scan(&sum)), sum)
}
