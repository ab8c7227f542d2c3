"""TPC-H: tables and rows as its specification has them, made by SQL on PostgreSQL, and its 22 queries with the values that validate them.

Distributions, keys and what the queries look for are those of the specification (section 4.2); texts are made of fewer words than its own grammar gives. Everything comes
from `random()` after `setseed`, so the same scale gives the same rows. `generate` writes one file a table, which both servers load by COPY.
"""

import dataclasses
import os
import pathlib
import statistics
import tempfile
import time

import wire

SCHEMA = """
create table region (r_regionkey int primary key, r_name char(25) not null, r_comment varchar(152));
create table nation (n_nationkey int primary key, n_name char(25) not null, n_regionkey int not null, n_comment varchar(152));
create table supplier (s_suppkey int primary key, s_name char(25) not null, s_address varchar(40) not null, s_nationkey int not null, s_phone char(15) not null,
    s_acctbal numeric(15, 2) not null, s_comment varchar(101) not null);
create table part (p_partkey int primary key, p_name varchar(55) not null, p_mfgr char(25) not null, p_brand char(10) not null, p_type varchar(25) not null, p_size int not null,
    p_container char(10) not null, p_retailprice numeric(15, 2) not null, p_comment varchar(23) not null);
create table partsupp (ps_partkey int, ps_suppkey int, ps_availqty int not null, ps_supplycost numeric(15, 2) not null, ps_comment varchar(199) not null,
    primary key (ps_partkey, ps_suppkey));
create table customer (c_custkey int primary key, c_name varchar(25) not null, c_address varchar(40) not null, c_nationkey int not null, c_phone char(15) not null,
    c_acctbal numeric(15, 2) not null, c_mktsegment char(10) not null, c_comment varchar(117) not null);
create table orders (o_orderkey int primary key, o_custkey int not null, o_orderstatus char(1) not null, o_totalprice numeric(15, 2) not null, o_orderdate date not null,
    o_orderpriority char(15) not null, o_clerk char(15) not null, o_shippriority int not null, o_comment varchar(79) not null);
create table lineitem (l_orderkey int, l_partkey int not null, l_suppkey int not null, l_linenumber int, l_quantity numeric(15, 2) not null, l_extendedprice numeric(15, 2) not null,
    l_discount numeric(15, 2) not null, l_tax numeric(15, 2) not null, l_returnflag char(1) not null, l_linestatus char(1) not null, l_shipdate date not null,
    l_commitdate date not null, l_receiptdate date not null, l_shipinstruct char(25) not null, l_shipmode char(10) not null, l_comment varchar(44) not null,
    primary key (l_orderkey, l_linenumber));
"""

# Indexes that reports over foreign keys want; the same on both servers.
INDEXES = """
create index on nation (n_regionkey);
create index on supplier (s_nationkey);
create index on partsupp (ps_suppkey);
create index on customer (c_nationkey);
create index on orders (o_custkey);
create index on orders (o_orderdate);
create index on lineitem (l_partkey, l_suppkey);
create index on lineitem (l_shipdate);
"""

TABLES = ("region", "nation", "supplier", "part", "partsupp", "customer", "orders", "lineitem")

NATIONS = (("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4), ("ETHIOPIA", 0), ("FRANCE", 3), ("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2), ("IRAN", 4),
           ("IRAQ", 4), ("JAPAN", 2), ("JORDAN", 4), ("KENYA", 0), ("MOROCCO", 0), ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3), ("SAUDI ARABIA", 4), ("VIETNAM", 2),
           ("RUSSIA", 3), ("UNITED KINGDOM", 3), ("UNITED STATES", 1))
REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
COLORS = ("almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood burnished chartreuse chiffon chocolate coral cornflower cornsilk cream cyan dark deep dim "
          "dodger drab firebrick floral forest frosted gainsboro ghost goldenrod green grey honeydew hot indian ivory khaki lace lavender lawn lemon light lime linen magenta maroon medium "
          "metallic midnight mint misty moccasin navajo navy olive orange orchid pale papaya peach peru pink plum powder puff purple red rose rosy royal saddle salmon sandy seashell sienna "
          "sky slate smoke snow spring steel tan thistle tomato turquoise violet wheat white yellow").split()
WORDS = ("foxes ideas theodolites pinto beans instructions dependencies excuses platelets asymptotes courts dolphins accounts packages deposits warhorses sheaves requests decoys realms "
         "sleep wake haggle nag cajole detect integrate furiously slyly carefully blithely quickly regular special final ironic even bold silent express unusual pending").split()
TYPES = (("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"), ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"), ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER"))
CONTAINERS = (("SM", "LG", "MED", "JUMBO", "WRAP"), ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"))
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")


def array(words):
    return "array[" + ", ".join("'" + word + "'" for word in words) + "]"


def one_of(words):
    """One of the words, each as likely as the others."""
    return f"({array(words)})[1 + floor(random() * {len(words)})::int]"


def words(count):
    """A text of random words."""
    return " || ' ' || ".join(one_of(WORDS) for _ in range(count))


def whole(low, high):
    """A whole number from `low` to `high`."""
    return f"({low} + floor(random() * ({high} - {low} + 1)))::int"


def phone(nation):
    return f"({nation} + 10) || '-' || {whole(100, 999)} || '-' || {whole(100, 999)} || '-' || {whole(1000, 9999)}"


def supplier_of(part, number, suppliers):
    """The supplier that has a part as its `number`th, from 0 to 3."""
    return f"(({part} + {number} * ({suppliers} / 4 + ({part} - 1) / {suppliers})) % {suppliers} + 1)"


def statements(scale):
    """What fills the tables."""
    suppliers, parts, customers, orders = (max(1, round(count * scale)) for count in (10_000, 200_000, 150_000, 1_500_000))
    yield "select setseed(0.5)"
    yield "insert into region values " + ", ".join(f"({key}, '{name}', 'a region')" for key, name in enumerate(REGIONS))
    yield "insert into nation values " + ", ".join(f"({key}, '{name}', {region}, 'a nation')" for key, (name, region) in enumerate(NATIONS))
    # Five in ten thousand complain, five recommend.
    comment = f"case when n % 2000 = 7 then 'even Customer slyly Complaints' when n % 2000 = 11 then 'bold Customer Recommends' else {words(6)} end"
    yield (f"insert into supplier select n, 'Supplier#' || lpad(n::text, 9, '0'), md5(n::text), nation, {phone('nation')}, {whole(-99999, 999999)} / 100.0, {comment} "
           f"from (select n, {whole(0, 24)} as nation from generate_series(1, {suppliers}) n) s")
    colors = " || ' ' || ".join(one_of(COLORS) for _ in range(5))
    yield (f"insert into part select n, {colors}, 'Manufacturer#' || m, 'Brand#' || m || {whole(1, 5)}, {' || chr(32) || '.join(one_of(part) for part in TYPES)}, {whole(1, 50)}, "
           f"{' || chr(32) || '.join(one_of(part) for part in CONTAINERS)}, (90000 + n / 10 % 20001 + 100 * (n % 1000)) / 100.0, left({words(2)}, 23) "
           f"from (select n, {whole(1, 5)} as m from generate_series(1, {parts}) n) p")
    yield (f"insert into partsupp select n, {supplier_of('n', 'i', suppliers)}, {whole(1, 9999)}, {whole(100, 100000)} / 100.0, {words(10)} "
           f"from generate_series(1, {parts}) n, generate_series(0, 3) i")
    yield (f"insert into customer select n, 'Customer#' || lpad(n::text, 9, '0'), md5(n::text), nation, {phone('nation')}, {whole(-99999, 999999)} / 100.0, {one_of(SEGMENTS)}, {words(7)} "
           f"from (select n, {whole(0, 24)} as nation from generate_series(1, {customers}) n) c")
    # A third of the customers never orders; of every 32 keys eight are used. What follows from the lines comes at the end.
    yield (f"create temporary table made as select n / 8 * 32 + n % 8 as key, {whole(0, max(0, customers // 3 - 1))} * 3 + {whole(1, 2)} as customer, date '1992-01-01' + {whole(0, 2405)} as day, "
           f"{whole(1, 7)} as lines from generate_series(1, {orders}) n")
    yield (f"insert into lineitem select key, part, {supplier_of('part', 'nth', suppliers)}, line, quantity, quantity * (90000 + part / 10 % 20001 + 100 * (part % 1000)) / 100.0, discount, tax, "
           f"case when received > '1995-06-17' then 'N' when coin < 0.5 then 'R' else 'A' end, case when shipped > '1995-06-17' then 'O' else 'F' end, shipped, committed, received, "
           f"{one_of(INSTRUCTIONS)}, {one_of(MODES)}, {words(3)} from (select *, shipped + {whole(1, 30)} as received from (select key, line, {whole(1, parts)} as part, {whole(0, 3)} as nth, "
           f"{whole(1, 50)} as quantity, {whole(0, 10)} / 100.0 as discount, {whole(0, 8)} / 100.0 as tax, random() as coin, day + {whole(1, 121)} as shipped, day + {whole(30, 90)} as committed "
           f"from made, generate_series(1, lines) line offset 0) l offset 0) l")
    comment = f"case when key % 100 = 3 then 'the special packages and requests' else {words(5)} end"
    yield (f"insert into orders select key, customer, case when open = 0 then 'F' when open = lines then 'O' else 'P' end, total, day, {one_of(PRIORITIES)}, "
           f"'Clerk#' || lpad({whole(1, max(1, round(1000 * scale)))}::text, 9, '0'), 0, {comment} from made join (select l_orderkey, count(*) filter (where l_linestatus = 'O') as open, "
           "sum(l_extendedprice * (1 + l_tax) * (1 - l_discount)) as total from lineitem group by 1) l on l_orderkey = key")


def generate(client, scale, folder):
    """Makes the rows on PostgreSQL and writes them to `folder`, a file a table, for COPY. Returns the files."""
    written = {name: pathlib.Path(folder) / f"{name}.copy" for name in TABLES}
    run(client, SCHEMA)
    # Parallel workers would have random numbers of their own.
    run(client, "set max_parallel_workers_per_gather = 0; set work_mem = '256MB'")
    for statement in statements(scale):
        run(client, statement)
    for name, path in written.items():
        run(client, f"copy {name} to '{path}'")
    run(client, "drop table " + ", ".join(TABLES))
    return written


def load(client, files):
    run(client, SCHEMA)
    for name, path in files.items():
        run(client, f"copy {name} from '{path}'")
    run(client, INDEXES)
    for statement in ("vacuum", "analyze"):
        run(client, statement)


def run(client, sql):
    for answer in client.query(sql):
        if isinstance(answer, wire.Failure):
            raise RuntimeError(f"{answer.sqlstate}: {answer.message}: {sql[:200]}")


# By number. Where rows have no order of their own, or more than one order is right, they are compared as multisets.
QUERIES = {
    1: """select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)), sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)),
        avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
        from lineitem where l_shipdate <= date '1998-12-01' - interval '90 days' group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus""",
    2: """select s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment from part, supplier, partsupp, nation, region
        where p_partkey = ps_partkey and s_suppkey = ps_suppkey and p_size = 15 and p_type like '%BRASS' and s_nationkey = n_nationkey and n_regionkey = r_regionkey and r_name = 'EUROPE'
        and ps_supplycost = (select min(ps_supplycost) from partsupp, supplier, nation, region where p_partkey = ps_partkey and s_suppkey = ps_suppkey and s_nationkey = n_nationkey
        and n_regionkey = r_regionkey and r_name = 'EUROPE') order by s_acctbal desc, n_name, s_name, p_partkey limit 100""",
    3: """select l_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue, o_orderdate, o_shippriority from customer, orders, lineitem
        where c_mktsegment = 'BUILDING' and c_custkey = o_custkey and l_orderkey = o_orderkey and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15'
        group by l_orderkey, o_orderdate, o_shippriority order by revenue desc, o_orderdate, l_orderkey limit 10""",
    4: """select o_orderpriority, count(*) from orders where o_orderdate >= date '1993-07-01' and o_orderdate < date '1993-07-01' + interval '3 months'
        and exists (select * from lineitem where l_orderkey = o_orderkey and l_commitdate < l_receiptdate) group by o_orderpriority order by o_orderpriority""",
    5: """select n_name, sum(l_extendedprice * (1 - l_discount)) as revenue from customer, orders, lineitem, supplier, nation, region
        where c_custkey = o_custkey and l_orderkey = o_orderkey and l_suppkey = s_suppkey and c_nationkey = s_nationkey and s_nationkey = n_nationkey and n_regionkey = r_regionkey
        and r_name = 'ASIA' and o_orderdate >= date '1994-01-01' and o_orderdate < date '1994-01-01' + interval '1 year' group by n_name order by revenue desc""",
    6: """select sum(l_extendedprice * l_discount) from lineitem where l_shipdate >= date '1994-01-01' and l_shipdate < date '1994-01-01' + interval '1 year'
        and l_discount between 0.06 - 0.01 and 0.06 + 0.01 and l_quantity < 24""",
    7: """select supp_nation, cust_nation, l_year, sum(volume) from (select n1.n_name as supp_nation, n2.n_name as cust_nation, extract(year from l_shipdate) as l_year,
        l_extendedprice * (1 - l_discount) as volume from supplier, lineitem, orders, customer, nation n1, nation n2 where s_suppkey = l_suppkey and o_orderkey = l_orderkey
        and c_custkey = o_custkey and s_nationkey = n1.n_nationkey and c_nationkey = n2.n_nationkey and ((n1.n_name = 'FRANCE' and n2.n_name = 'GERMANY')
        or (n1.n_name = 'GERMANY' and n2.n_name = 'FRANCE')) and l_shipdate between date '1995-01-01' and date '1996-12-31') shipping
        group by supp_nation, cust_nation, l_year order by supp_nation, cust_nation, l_year""",
    8: """select o_year, sum(case when nation = 'BRAZIL' then volume else 0 end) / sum(volume) from (select extract(year from o_orderdate) as o_year,
        l_extendedprice * (1 - l_discount) as volume, n2.n_name as nation from part, supplier, lineitem, orders, customer, nation n1, nation n2, region
        where p_partkey = l_partkey and s_suppkey = l_suppkey and l_orderkey = o_orderkey and o_custkey = c_custkey and c_nationkey = n1.n_nationkey and n1.n_regionkey = r_regionkey
        and r_name = 'AMERICA' and s_nationkey = n2.n_nationkey and o_orderdate between date '1995-01-01' and date '1996-12-31' and p_type = 'ECONOMY ANODIZED STEEL') all_nations
        group by o_year order by o_year""",
    9: """select nation, o_year, sum(amount) from (select n_name as nation, extract(year from o_orderdate) as o_year,
        l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity as amount from part, supplier, lineitem, partsupp, orders, nation where s_suppkey = l_suppkey
        and ps_suppkey = l_suppkey and ps_partkey = l_partkey and p_partkey = l_partkey and o_orderkey = l_orderkey and s_nationkey = n_nationkey and p_name like '%green%') profit
        group by nation, o_year order by nation, o_year desc""",
    10: """select c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) as revenue, c_acctbal, n_name, c_address, c_phone, c_comment from customer, orders, lineitem, nation
        where c_custkey = o_custkey and l_orderkey = o_orderkey and o_orderdate >= date '1993-10-01' and o_orderdate < date '1993-10-01' + interval '3 months' and l_returnflag = 'R'
        and c_nationkey = n_nationkey group by c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment order by revenue desc, c_custkey limit 20""",
    11: """select ps_partkey, sum(ps_supplycost * ps_availqty) as value from partsupp, supplier, nation where ps_suppkey = s_suppkey and s_nationkey = n_nationkey and n_name = 'GERMANY'
        group by ps_partkey having sum(ps_supplycost * ps_availqty) > (select sum(ps_supplycost * ps_availqty) * {fraction} from partsupp, supplier, nation
        where ps_suppkey = s_suppkey and s_nationkey = n_nationkey and n_name = 'GERMANY') order by value desc, ps_partkey""",
    12: """select l_shipmode, sum(case when o_orderpriority = '1-URGENT' or o_orderpriority = '2-HIGH' then 1 else 0 end),
        sum(case when o_orderpriority <> '1-URGENT' and o_orderpriority <> '2-HIGH' then 1 else 0 end) from orders, lineitem where o_orderkey = l_orderkey
        and l_shipmode in ('MAIL', 'SHIP') and l_commitdate < l_receiptdate and l_shipdate < l_commitdate and l_receiptdate >= date '1994-01-01'
        and l_receiptdate < date '1994-01-01' + interval '1 year' group by l_shipmode order by l_shipmode""",
    13: """select c_count, count(*) as custdist from (select c_custkey, count(o_orderkey) from customer left join orders on c_custkey = o_custkey
        and o_comment not like '%special%requests%' group by c_custkey) as c_orders (c_custkey, c_count) group by c_count order by custdist desc, c_count desc""",
    14: """select 100.00 * sum(case when p_type like 'PROMO%' then l_extendedprice * (1 - l_discount) else 0 end) / sum(l_extendedprice * (1 - l_discount)) from lineitem, part
        where l_partkey = p_partkey and l_shipdate >= date '1995-09-01' and l_shipdate < date '1995-09-01' + interval '1 month'""",
    15: """with revenue (supplier_no, total_revenue) as (select l_suppkey, sum(l_extendedprice * (1 - l_discount)) from lineitem where l_shipdate >= date '1996-01-01'
        and l_shipdate < date '1996-01-01' + interval '3 months' group by l_suppkey) select s_suppkey, s_name, s_address, s_phone, total_revenue from supplier, revenue
        where s_suppkey = supplier_no and total_revenue = (select max(total_revenue) from revenue) order by s_suppkey""",
    16: """select p_brand, p_type, p_size, count(distinct ps_suppkey) as supplier_cnt from partsupp, part where p_partkey = ps_partkey and p_brand <> 'Brand#45'
        and p_type not like 'MEDIUM POLISHED%' and p_size in (49, 14, 23, 45, 19, 3, 36, 9) and ps_suppkey not in (select s_suppkey from supplier
        where s_comment like '%Customer%Complaints%') group by p_brand, p_type, p_size order by supplier_cnt desc, p_brand, p_type, p_size""",
    17: """select sum(l_extendedprice) / 7.0 from lineitem, part where p_partkey = l_partkey and p_brand = 'Brand#23' and p_container = 'MED BOX'
        and l_quantity < (select 0.2 * avg(l_quantity) from lineitem where l_partkey = p_partkey)""",
    18: """select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) from customer, orders, lineitem where o_orderkey in (select l_orderkey from lineitem
        group by l_orderkey having sum(l_quantity) > 300) and c_custkey = o_custkey and o_orderkey = l_orderkey group by c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
        order by o_totalprice desc, o_orderdate, o_orderkey limit 100""",
    19: """select sum(l_extendedprice * (1 - l_discount)) from lineitem, part where (p_partkey = l_partkey and p_brand = 'Brand#12' and p_container in ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
        and l_quantity >= 1 and l_quantity <= 1 + 10 and p_size between 1 and 5 and l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON')
        or (p_partkey = l_partkey and p_brand = 'Brand#23' and p_container in ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK') and l_quantity >= 10 and l_quantity <= 10 + 10
        and p_size between 1 and 10 and l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON')
        or (p_partkey = l_partkey and p_brand = 'Brand#34' and p_container in ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG') and l_quantity >= 20 and l_quantity <= 20 + 10
        and p_size between 1 and 15 and l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON')""",
    20: """select s_name, s_address from supplier, nation where s_suppkey in (select ps_suppkey from partsupp where ps_partkey in (select p_partkey from part where p_name like 'forest%')
        and ps_availqty > (select 0.5 * sum(l_quantity) from lineitem where l_partkey = ps_partkey and l_suppkey = ps_suppkey and l_shipdate >= date '1994-01-01'
        and l_shipdate < date '1994-01-01' + interval '1 year')) and s_nationkey = n_nationkey and n_name = 'CANADA' order by s_name""",
    21: """select s_name, count(*) as numwait from supplier, lineitem l1, orders, nation where s_suppkey = l1.l_suppkey and o_orderkey = l1.l_orderkey and o_orderstatus = 'F'
        and l1.l_receiptdate > l1.l_commitdate and exists (select * from lineitem l2 where l2.l_orderkey = l1.l_orderkey and l2.l_suppkey <> l1.l_suppkey)
        and not exists (select * from lineitem l3 where l3.l_orderkey = l1.l_orderkey and l3.l_suppkey <> l1.l_suppkey and l3.l_receiptdate > l3.l_commitdate)
        and s_nationkey = n_nationkey and n_name = 'SAUDI ARABIA' group by s_name order by numwait desc, s_name limit 100""",
    22: """select cntrycode, count(*), sum(c_acctbal) from (select substring(c_phone from 1 for 2) as cntrycode, c_acctbal from customer
        where substring(c_phone from 1 for 2) in ('13', '31', '23', '29', '30', '18', '17') and c_acctbal > (select avg(c_acctbal) from customer where c_acctbal > 0.00
        and substring(c_phone from 1 for 2) in ('13', '31', '23', '29', '30', '18', '17')) and not exists (select * from orders where o_custkey = c_custkey)) custsale
        group by cntrycode order by cntrycode""",
}


def query(number, scale):
    return QUERIES[number].replace("{fraction}", f"{0.0001 / scale:.10f}")


def timed(client, sql):
    """Seconds that a query takes, and its rows."""
    before = time.monotonic()
    answers = client.query(sql)
    took = time.monotonic() - before
    failures = [answer for answer in answers if isinstance(answer, wire.Failure)]
    if failures:
        raise RuntimeError(f"{failures[0].sqlstate}: {failures[0].message}: {sql}")
    return took, answers[-1].rows


@dataclasses.dataclass
class Compared:
    """A query on both servers: seconds, medians of its runs."""
    number: int
    ours: float
    theirs: float
    rows: int
    same: bool
    resident: int  # bytes of Niwaki's process afterwards

    def __str__(self):
        note = "" if self.same else "  OTHER ROWS"
        return f"query {self.number:2}: {self.ours:8.3f} s, PostgreSQL {self.theirs:8.3f} s, {self.ours / self.theirs:6.2f}x, {self.rows:6} rows, {self.resident >> 20:5} MB{note}"


def compare(ours, theirs, scale, numbers=tuple(QUERIES), runs=3, progress=lambda compared: None, stages=lambda what: None):
    """Makes the rows, loads them into both servers, and runs the queries on the one and the other in turns. A query is cancelled after five minutes."""
    with tempfile.TemporaryDirectory(prefix="tpch-", dir=os.environ.get("BENCH_DIR")) as folder:
        # The server of PostgreSQL writes into it, under its own user.
        pathlib.Path(folder).chmod(0o777)
        clients = [wire.Client(server.port, timeout=300) for server in (ours, theirs)]
        stages("making the rows")
        files = generate(wire.Client(theirs.port, timeout=3600), scale, folder)
        for server in (ours, theirs):
            stages(f"loading {server.name}")
            load(wire.Client(server.port, timeout=3600), files)
    found = []
    for number in numbers:
        sql = query(number, scale)
        times, rows = ([], []), [None, None]
        for _ in range(runs):
            for at, client in enumerate(clients):
                took, rows[at] = timed(client, sql)
                times[at].append(took)
        same = sorted(map(repr, rows[0])) == sorted(map(repr, rows[1]))
        found.append(Compared(number, statistics.median(times[0]), statistics.median(times[1]), len(rows[1]), same, ours.resident_bytes()))
        progress(found[-1])
    return found
