// lib/pq: database/sql over the simple and the extended protocol, COPY, arrays, transactions, notifications, errors.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lib/pq"
)

func shown(err error) string {
	var found *pq.Error
	if errors.As(err, &found) {
		return fmt.Sprintf("%s %s %s %s|%s|%s|%s|%s.%s.%s %s", found.Severity, found.Code, found.Code.Name(), found.Message, found.Detail, found.Hint, found.Position, found.Schema, found.Table, found.Column, found.Constraint)
	}
	if err != nil {
		return strings.SplitN(err.Error(), "\n", 2)[0]
	}
	return "no error"
}

type queryer interface {
	Query(string, ...any) (*sql.Rows, error)
}

func query(db queryer, text string, arguments ...any) {
	found, err := db.Query(text, arguments...)
	if err != nil {
		fmt.Println(text+":", shown(err))
		return
	}
	defer found.Close()
	for {
		kinds, _ := found.ColumnTypes()
		var names []string
		for _, kind := range kinds {
			length, _ := kind.Length()
			precision, scale, _ := kind.DecimalSize()
			names = append(names, fmt.Sprintf("%s %s %v %d %d %d", kind.Name(), kind.DatabaseTypeName(), kind.ScanType(), length, precision, scale))
		}
		fmt.Println(text+":", names)
		for found.Next() {
			values := make([]any, len(kinds))
			into := make([]any, len(kinds))
			for i := range values {
				into[i] = &values[i]
			}
			err := found.Scan(into...)
			var line []string
			for _, v := range values {
				switch v := v.(type) {
				case time.Time:
					line = append(line, v.UTC().Format(time.RFC3339Nano))
				case []byte:
					line = append(line, fmt.Sprintf("%q", v))
				default:
					line = append(line, fmt.Sprintf("%T %v", v, v))
				}
			}
			fmt.Println("  ", strings.Join(line, ", "), shown(err))
		}
		fmt.Println("  ", shown(found.Err()))
		if !found.NextResultSet() {
			return
		}
	}
}

func exec(db *sql.DB, text string, arguments ...any) {
	result, err := db.Exec(text, arguments...)
	if err != nil {
		fmt.Println(text+":", shown(err))
		return
	}
	n, err := result.RowsAffected()
	fmt.Println(text+":", n, shown(err))
}

func main() {
	for _, binary := range []string{"no", "yes"} {
		db, err := sql.Open("postgres", "sslmode=disable binary_parameters="+binary)
		if err != nil {
			fmt.Println(err)
			return
		}
		db.SetMaxOpenConns(3)
		fmt.Println("== binary parameters:", binary)
		everything(db)
		db.Close()
	}
}

func everything(db *sql.DB) {
	exec(db, "drop table if exists t, c")
	exec(db, "create table t (id serial primary key, name varchar(20) unique not null, n numeric(10,2), at timestamptz, j jsonb, a int[], b bytea)")
	at := time.Date(2024, 1, 2, 3, 4, 5, 678901000, time.UTC)
	exec(db, "insert into t (name, n, at, j, a, b) values ($1, $2, $3, $4, $5, $6)", "one", 1.5, at, `{"a": [1]}`, pq.Array([]int{1, 2}), []byte{0, 255})
	exec(db, "insert into t (name) values ('two'), ('three'); update t set n = 2 where n is null")
	query(db, "select * from t order by id")
	query(db, "select id from t where name = $1 and at >= $2 and id = any($3) and n > $4 limit $5", "one", at, pq.Array([]int64{1, 2}), 1, 10)
	query(db, "select 1 as a; select 'x' as b, null as c")
	query(db, "select 1::int2, 2::int8, 1.5::float4, 2.5::float8, true, '2024-02-29'::date, '12:00'::time, '10:00+02'::timetz, '2024-01-01'::timestamp, '1 day'::interval, '\\x00ff'::bytea, 'x'::char(3), '{a,b}'::text[], $1::uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
	query(db, "select $1::int, $2::text, $3::bool, $4::float8, $5::bytea, $6::date, $7::text[]", 1, "it's", true, 0.1, []byte("b"), at, pq.Array([]string{"a,b", `"`}))
	var texts []string
	var numbers pq.Int64Array
	fmt.Println(shown(db.QueryRow("select '{a,NULL}'::text[] is null, '{x,y}'::text[], '{1,2}'::int[]").Scan(new(bool), pq.Array(&texts), &numbers)), texts, numbers)

	tx, _ := db.Begin()
	statement, err := tx.Prepare(pq.CopyIn("t", "name", "n", "at", "b"))
	fmt.Println(shown(err))
	for i := range 3 {
		_, err = statement.Exec(fmt.Sprint("copied", i), i, at, []byte{byte(i)})
		fmt.Println(shown(err))
	}
	_, err = statement.Exec()
	fmt.Println(shown(err), shown(statement.Close()), shown(tx.Commit()))
	query(db, "select name, n, b from t where name like 'copied%' order by 1")

	tx, _ = db.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	query(tx, "show transaction_isolation")
	_, err = tx.Exec("insert into t (name) values ('one')")
	fmt.Println(shown(err))
	_, err = tx.Exec("select 1")
	fmt.Println(shown(err), shown(tx.Commit()))
	short, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	_, err = db.ExecContext(short, "select pg_sleep(20)")
	cancel()
	fmt.Println(shown(err))

	prepared, err := db.Prepare("select name from t where id = $1")
	fmt.Println(shown(err))
	for id := range 3 {
		var name string
		fmt.Println(shown(prepared.QueryRow(id).Scan(&name)), name)
	}
	for _, text := range []string{"selec 1", "select nothing from t", "select * from nowhere", "insert into t (name) values (null)", "insert into t (name) values (repeat('x', 21))", "create table t (a int)", "select 'x'::int", "select 1 / 0", ""} {
		query(db, text)
	}
	query(db, "select $1::int", "x")
	query(db, "select $1::int")

	listener := pq.NewListener("sslmode=disable", time.Second, time.Second, nil)
	fmt.Println(shown(listener.Listen("there")))
	exec(db, "select pg_notify('there', $1)", "hello")
	select {
	case heard := <-listener.Notify:
		fmt.Println(heard.Channel, heard.Extra)
	case <-time.After(10 * time.Second):
		fmt.Println("nothing heard")
	}
	fmt.Println(shown(listener.Ping()), shown(listener.Close()))
}
