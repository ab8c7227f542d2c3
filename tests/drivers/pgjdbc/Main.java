import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.Array;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.SQLWarning;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.OffsetTime;
import java.time.ZoneOffset;
import java.util.Properties;
import java.util.TimeZone;
import java.util.UUID;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.copy.CopyManager;
import org.postgresql.util.PGInterval;
import org.postgresql.util.PGobject;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

/** pgjdbc: statements in every mode, types, batches, generated keys, cursors, COPY, metadata, transactions, notifications, errors. */
public class Main {
    static Connection c;

    interface Action {
        Object run() throws Exception;
    }

    static void show(String label, Action action) {
        try {
            System.out.println(label + ": " + action.run());
        } catch (PSQLException e) {
            ServerErrorMessage m = e.getServerErrorMessage();
            System.out.println(label + ": " + e.getSQLState() + " " + (m == null ? e.getMessage() : m.getMessage() + " | " + m.getDetail() + " | " + m.getHint() + " | " + m.getPosition() + " | " + m.getTable() + "." + m.getColumn() + " " + m.getConstraint()));
        } catch (Exception e) {
            System.out.println(label + ": " + e.getClass().getSimpleName() + " " + e.getMessage());
        }
    }

    static String rows(ResultSet r) throws SQLException {
        StringBuilder text = new StringBuilder();
        ResultSetMetaData m = r.getMetaData();
        int n = m.getColumnCount();
        while (r.next()) {
            text.append("\n   ");
            for (int i = 1; i <= n; i++) {
                Object value = r.getObject(i) instanceof byte[] bytes ? java.util.Arrays.toString(bytes) : r.getString(i);
                text.append(i > 1 ? " | " : "").append(value);
            }
        }
        return text.toString();
    }

    static String described(ResultSet r) throws SQLException {
        StringBuilder text = new StringBuilder();
        ResultSetMetaData m = r.getMetaData();
        for (int i = 1; i <= m.getColumnCount(); i++) {
            text.append(" [").append(m.getColumnLabel(i)).append(' ').append(m.getColumnTypeName(i)).append(' ').append(m.getColumnType(i)).append(' ').append(m.getColumnClassName(i)).append(' ').append(m.getPrecision(i)).append(' ')
                .append(m.getScale(i)).append(' ').append(m.getColumnDisplaySize(i)).append(' ').append(m.isNullable(i)).append(' ').append(m.isAutoIncrement(i)).append(' ').append(m.getTableName(i)).append(' ').append(m.isSigned(i)).append(']');
        }
        return text.toString();
    }

    static Connection connect(String... settings) throws SQLException {
        Properties p = new Properties();
        p.setProperty("user", "postgres");
        for (int i = 0; i < settings.length; i += 2) {
            p.setProperty(settings[i], settings[i + 1]);
        }
        return DriverManager.getConnection("jdbc:postgresql://127.0.0.1:" + System.getenv("PGPORT") + "/postgres", p);
    }

    static String query(String sql, Object... parameters) throws SQLException {
        try (PreparedStatement s = c.prepareStatement(sql)) {
            for (int i = 0; i < parameters.length; i++) {
                s.setObject(i + 1, parameters[i]);
            }
            if (s.execute()) {
                try (ResultSet r = s.getResultSet()) {
                    return described(r) + rows(r);
                }
            }
            return "count " + s.getUpdateCount();
        }
    }

    public static void main(String[] arguments) throws Exception {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        for (String mode : new String[] {"extended", "simple", "extendedForPrepared"}) {
            c = connect("preferQueryMode", mode, "prepareThreshold", "2", "reWriteBatchedInserts", String.valueOf(mode.equals("simple")));
            System.out.println("== mode " + mode);
            statements();
            types();
            batches();
            cursors();
            transactions();
            c.close();
        }
        c = connect("ApplicationName", "of Java");
        System.out.println("== copying");
        copying();
        System.out.println("== metadata");
        metadata();
        System.out.println("== messages");
        messages();
    }

    static void statements() throws SQLException {
        Statement s = c.createStatement();
        s.execute("drop table if exists t cascade; create table t (id serial primary key, name varchar(20) unique not null, n numeric(10,2) default 1.5, at timestamptz, j jsonb, a int[], b boolean)");
        show("several", () -> {
            s.execute("insert into t (name) values ('a'), ('b'); select name from t order by id; update t set n = 2 where id = 1");
            StringBuilder text = new StringBuilder();
            while (true) {
                ResultSet r = s.getResultSet();
                if (r != null) {
                    text.append(rows(r));
                } else if (s.getUpdateCount() >= 0) {
                    text.append(" count ").append(s.getUpdateCount());
                } else {
                    return text;
                }
                s.getMoreResults();
            }
        });
        show("generated", () -> {
            try (PreparedStatement p = c.prepareStatement("insert into t (name, n) values (?, ?)", Statement.RETURN_GENERATED_KEYS)) {
                p.setString(1, "generated");
                p.setBigDecimal(2, new BigDecimal("3.25"));
                p.executeUpdate();
                return described(p.getGeneratedKeys()) + rows(p.getGeneratedKeys());
            }
        });
        show("some generated", () -> {
            try (PreparedStatement p = c.prepareStatement("insert into t (name) values (?)", new String[] {"id", "n"})) {
                p.setString(1, "some");
                p.executeUpdate();
                return rows(p.getGeneratedKeys());
            }
        });
        for (int i = 0; i < 7; i++) {
            int id = i;
            show("by id", () -> query("select id, name, n, at from t where id = ?", id));
        }
        show("valid", () -> c.isValid(5));
        show("updatable", () -> {
            try (Statement u = c.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE); ResultSet r = u.executeQuery("select id, name, n from t order by id")) {
                r.next();
                r.updateString("name", "updated");
                r.updateRow();
                r.moveToInsertRow();
                r.updateInt("id", 100);
                r.updateString("name", "inserted");
                r.insertRow();
                r.last();
                r.deleteRow();
                r.absolute(1);
                return r.getString(2) + " " + r.getRow();
            }
        });
        show("call", () -> query("{? = call upper(?)}".replace("{? = call ", "select ").replace("}", ""), "x"));
        show("escapes", () -> query("select {fn concat('a', {fn ucase('b')})}, {d '2024-02-29'}, {ts '2024-01-01 10:00:00'}, {fn length('abc')}, {fn now()} is null"));
        show("after a change", () -> {
            s.execute("alter table t add extra int default 5");
            String first = query("select * from t where id = ?", 1);
            s.execute("alter table t drop extra");
            return first + query("select * from t where id = ?", 1);
        });
    }

    static void types() {
        OffsetDateTime at = OffsetDateTime.of(2024, 1, 2, 3, 4, 5, 678901000, ZoneOffset.ofHours(2));
        Object[] values = {true, (short) 5, 7, 1L << 40, 1.5f, 0.1, new BigDecimal("12345678901234567890.50"), "it's ünï", new byte[] {0, (byte) 255}, LocalDate.of(2024, 2, 29), LocalTime.of(1, 2, 3, 4000), LocalDateTime.of(2024, 1, 1, 2, 3), at,
            OffsetTime.of(1, 2, 3, 0, ZoneOffset.UTC), UUID.fromString("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), Timestamp.valueOf("2024-01-01 10:00:00.5"), java.sql.Date.valueOf("2024-01-01"), java.sql.Time.valueOf("10:00:00"), new int[] {1, 2},
            new String[] {"a,b", null}, new Integer[][] {{1, 2}, {3, 4}}};
        for (Object value : values) {
            for (int i = 0; i < 2; i++) {
                show(value.getClass().getSimpleName(), () -> query("select ? as v", value));
            }
        }
        show("interval", () -> query("select ?", new PGInterval("1 year 2 days 03:04:05.6")));
        show("json", () -> {
            PGobject o = new PGobject();
            o.setType("jsonb");
            o.setValue("{\"a\":[1,null]}");
            return query("select ?, ?::json", o, "[1]");
        });
        for (int i = 0; i < 4; i++) {
            show("all", () -> query("select true, 1::int2, 2, 3::int8, 1.5::float4, 2.5::float8, 1.10::numeric, 'NaN'::numeric, 'x'::text, 'v'::varchar(5), 'c'::char(3), 'n'::name, '\\x00ff'::bytea, '2024-02-29'::date, '12:34:56.789'::time, "
                + "'10:00+02'::timetz, '2024-01-01 00:00:00.5'::timestamp, '2024-01-01 00:00+02'::timestamptz, '1 year 02:03:04'::interval, '{1,NULL}'::int[], '{{a,b},{c,d}}'::text[], '{\"a\": 1}'::json, '{\"a\":1}'::jsonb, 5::oid, 'q'::\"char\", null, "
                + "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid, 'infinity'::timestamptz, 'pg_class'::regclass, ?", 1));
        }
        show("insert", () -> query("insert into t (name, n, at, j, a, b) values (?, ?, ?, ?::jsonb, ?, ?) returning *", "typed", 1, at, "{\"a\":1}", new int[] {1, 2}, true));
        show("conditions", () -> query("select name from t where id >= ? and n > ? and at < ? and a && ? and name = any(?) and b = ? order by id limit ?", 1L, 0.5, Timestamp.valueOf("2030-01-01 00:00:00"), new int[] {2}, new String[] {"typed"}, true, 5));
        show("like", () -> query("select count(*) from t where name like ? escape '' or n between ? and ? or at > ?", "t%", 1, new BigDecimal("2"), LocalDateTime.of(2020, 1, 1, 0, 0)));
        show("null", () -> {
            try (PreparedStatement p = c.prepareStatement("select ?, ?::int, coalesce(?, 1)")) {
                p.setNull(1, Types.VARCHAR);
                p.setNull(2, Types.INTEGER);
                p.setObject(3, null);
                return rows(p.executeQuery());
            }
        });
        show("array", () -> {
            try (PreparedStatement p = c.prepareStatement("select array_length(?::text[], 1), ?")) {
                Array a = c.createArrayOf("text", new String[] {"x", null, "\""});
                p.setArray(1, a);
                p.setArray(2, c.createArrayOf("numeric", new BigDecimal[] {new BigDecimal("1.10"), null}));
                ResultSet r = p.executeQuery();
                return rows(r);
            }
        });
        show("described", () -> {
            try (PreparedStatement p = c.prepareStatement("select id, name, n + ? as more from t where at > ? and j = ?")) {
                StringBuilder text = new StringBuilder();
                for (int i = 1; i <= p.getParameterMetaData().getParameterCount(); i++) {
                    text.append(p.getParameterMetaData().getParameterTypeName(i)).append(' ');
                }
                return text + " " + p.getMetaData().getColumnTypeName(3);
            }
        });
        show("a wrong type", () -> query("select 1 where 1 = ?", "x"));
        show("division", () -> query("select 1 / ?", 0));
    }

    static void batches() throws SQLException {
        c.createStatement().execute("drop table if exists b; create table b (a int primary key, t text)");
        show("batch", () -> {
            try (PreparedStatement p = c.prepareStatement("insert into b values (?, ?)")) {
                for (int i = 0; i < 300; i++) {
                    p.setInt(1, i);
                    p.setString(2, "t" + i);
                    p.addBatch();
                }
                int sum = 0;
                for (int n : p.executeBatch()) {
                    sum += n;
                }
                return sum > 0 || sum == -2 * 300;
            }
        });
        show("keys", () -> {
            try (PreparedStatement p = c.prepareStatement("insert into b values (?, 'k') returning a", Statement.RETURN_GENERATED_KEYS)) {
                for (int i = 1000; i < 1003; i++) {
                    p.setInt(1, i);
                    p.addBatch();
                }
                p.executeBatch();
                return rows(p.getGeneratedKeys());
            }
        });
        show("fails", () -> {
            Statement s = c.createStatement();
            s.addBatch("insert into b values (5000, 'x')");
            s.addBatch("insert into b values (5, 'x')");
            s.addBatch("insert into b values (5001, 'x')");
            s.executeBatch();
            return "no error";
        });
        show("count", () -> query("select count(*), max(a) from b"));
    }

    static void cursors() throws SQLException {
        c.setAutoCommit(false);
        show("fetch size", () -> {
            try (PreparedStatement p = c.prepareStatement("select a, t from b where a < ? order by a")) {
                p.setInt(1, 250);
                p.setFetchSize(40);
                ResultSet r = p.executeQuery();
                int n = 0;
                long sum = 0;
                while (r.next()) {
                    n++;
                    sum += r.getInt(1);
                }
                return n + " " + sum;
            }
        });
        show("held", () -> {
            try (Statement s = c.createStatement(ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY)) {
                s.setFetchSize(2);
                s.setMaxRows(5);
                return rows(s.executeQuery("select a from b order by a"));
            }
        });
        c.commit();
        c.setAutoCommit(true);
    }

    static void transactions() throws SQLException {
        c.setAutoCommit(false);
        c.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
        show("level", () -> c.getTransactionIsolation() + query("show transaction_isolation"));
        show("insert", () -> query("insert into t (name) values ('tx')"));
        Savepoint s = c.setSavepoint("s");
        show("unique", () -> query("insert into t (name) values ('tx')"));
        show("aborted", () -> query("select 1"));
        c.rollback(s);
        c.releaseSavepoint(s);
        show("count", () -> query("select count(*) from t where name = 'tx'"));
        c.rollback();
        c.setReadOnly(true);
        show("read only", () -> query("delete from t"));
        c.rollback();
        c.setReadOnly(false);
        c.setAutoCommit(true);
        show("timeout", () -> {
            try (Statement late = c.createStatement()) {
                late.setQueryTimeout(1);
                late.execute("select pg_sleep(20)");
                return "no error";
            }
        });
        show("still there", () -> query("select 1"));
    }

    static void copying() throws Exception {
        CopyManager copy = ((PGConnection) c).getCopyAPI();
        c.createStatement().execute("create table c (a int, b text)");
        show("in", () -> copy.copyIn("copy c from stdin", new StringReader("1\tone\n2\t\\N\n")));
        show("bad", () -> copy.copyIn("copy c from stdin csv", new StringReader("x,y\n")));
        StringWriter out = new StringWriter();
        show("out", () -> copy.copyOut("copy c to stdout (format csv, header)", out) + " " + out);
    }

    static void metadata() throws SQLException {
        c.createStatement().execute("create schema s; create type mood as enum ('sad', 'ok'); create domain small as int check (value < 10); create type pair as (a int, b text);"
            + "create table s.parent (a int, b varchar(10) default 'x', m mood, p small not null, g int generated always as (a + 1) stored, n numeric(8,3), ts timestamp(3), i int generated always as identity, ar text[], primary key (a, b));"
            + "create table s.child (id bigserial primary key, pa int, pb varchar(10), foreign key (pa, pb) references s.parent on delete cascade on update set null deferrable initially deferred);"
            + "create unique index child_expression on s.child (lower(pb), pa desc) where pa > 0; create view s.v as select a, b from s.parent; comment on table s.parent is 'a parent'; comment on column s.parent.b is 'b it is'; create sequence s.q;");
        DatabaseMetaData m = c.getMetaData();
        show("product", () -> m.getDatabaseProductName() + " " + m.getDatabaseMajorVersion() + " " + m.getMaxColumnNameLength() + " " + m.getMaxConnections() + " " + m.getDefaultTransactionIsolation() + " " + m.getUserName());
        show("catalogs", () -> rows(m.getCatalogs()));
        show("schemas", () -> rows(m.getSchemas()));
        show("table types", () -> rows(m.getTableTypes()));
        show("tables", () -> rows(m.getTables(null, "s", "%", null)));
        show("system tables", () -> rows(m.getTables(null, "pg_catalog", "pg_ind%", new String[] {"SYSTEM TABLE"})));
        show("columns", () -> rows(m.getColumns(null, "s", "%", "%")));
        show("primary keys", () -> rows(m.getPrimaryKeys(null, "s", "parent")));
        show("imported keys", () -> rows(m.getImportedKeys(null, "s", "child")));
        show("exported keys", () -> rows(m.getExportedKeys(null, "s", "parent")));
        show("cross reference", () -> rows(m.getCrossReference(null, "s", "parent", null, "s", "child")));
        show("indexes", () -> rows(m.getIndexInfo(null, "s", "child", false, true)));
        show("unique indexes", () -> rows(m.getIndexInfo(null, "s", "parent", true, true)));
        show("best row", () -> rows(m.getBestRowIdentifier(null, "s", "child", DatabaseMetaData.bestRowSession, true)));
        show("versions", () -> rows(m.getVersionColumns(null, "s", "child")));
        show("types of users", () -> rows(m.getUDTs(null, "public", "%", null)));
        show("type info", () -> {
            ResultSet r = m.getTypeInfo();
            StringBuilder text = new StringBuilder();
            while (r.next()) {
                String name = r.getString("TYPE_NAME");
                if (java.util.List.of("int4", "text", "numeric", "mood", "small", "pair", "_int4", "timestamptz", "jsonb").contains(name)) {
                    text.append("\n   ").append(name).append(' ').append(r.getInt("DATA_TYPE")).append(' ').append(r.getInt("PRECISION")).append(' ').append(r.getBoolean("AUTO_INCREMENT"));
                }
            }
            return text;
        });
        show("privileges", () -> rows(m.getTablePrivileges(null, "s", "parent")));
        show("column privileges", () -> rows(m.getColumnPrivileges(null, "s", "child", "pa")));
        show("functions", () -> rows(m.getFunctions(null, "pg_catalog", "initcap")).lines().count());
        show("function columns", () -> rows(m.getFunctionColumns(null, "pg_catalog", "length", null)).lines().count() > 0);
        show("procedures", () -> rows(m.getProcedures(null, null, "%")));
        show("keywords", () -> m.getSQLKeywords().length() > 100);
        show("client info", () -> rows(m.getClientInfoProperties()));
        show("schema", () -> c.getSchema() + " " + c.getCatalog() + " " + c.getClientInfo("ApplicationName"));
        show("set schema", () -> {
            c.setSchema("s");
            return query("select count(*) from parent") + query("insert into s.parent (a, m, p) values (?, ?::mood, ?) returning *", 1, "sad", 5);
        });
    }

    static void messages() throws Exception {
        Connection other = connect("options", "-c datestyle=iso,dmy -c work_mem=3MB");
        other.createStatement().execute("listen there");
        show("notify", () -> query("select pg_notify('there', ?)", "hello"));
        show("options", () -> rows(other.createStatement().executeQuery("select current_setting('work_mem'), current_setting('application_name')")));
        for (PGNotification n : ((PGConnection) other).getNotifications(5000)) {
            System.out.println(n.getName() + " " + n.getParameter());
        }
        other.close();
        Statement s = c.createStatement();
        s.execute("drop table if exists none");
        SQLWarning w = s.getWarnings();
        System.out.println(w.getSQLState() + " " + w.getMessage());
        for (String text : new String[] {"selec 1", "select nothing from s.child", "select * from nowhere", "insert into s.child values (1); insert into s.child values (1)", "insert into s.parent values (1, null)", "insert into s.child (pa, pb) values (7, 'x')", "select 'x'::int",
            "create table s.child (a int)", "insert into s.parent (a, p) values (2, null)", ""}) {
            show(text, () -> {
                s.execute(text);
                return "no error";
            });
        }
    }
}
