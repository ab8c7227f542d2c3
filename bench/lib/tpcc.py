"""A load like TPC-C: its tables, its five transactions in their shares, without waiting for terminals; and the consistency conditions that must hold whatever ran at once.

The names of conditions are their numbers in clause 3.3.2 of the specification.
"""

import collections
import dataclasses
import multiprocessing
import random
import time

import wire

SCHEMA = """
create table warehouse (w_id int primary key, w_name varchar(10), w_street varchar(20), w_city varchar(20), w_state char(2), w_zip char(9), w_tax numeric(4, 4), w_ytd numeric(12, 2));
create table district (d_w_id int, d_id int, d_name varchar(10), d_street varchar(20), d_city varchar(20), d_tax numeric(4, 4), d_ytd numeric(12, 2), d_next_o_id int,
    primary key (d_w_id, d_id), foreign key (d_w_id) references warehouse);
create table customer (c_w_id int, c_d_id int, c_id int, c_first varchar(16), c_middle char(2), c_last varchar(16), c_credit char(2), c_discount numeric(4, 4),
    c_balance numeric(12, 2), c_ytd_payment numeric(12, 2), c_payment_cnt int, c_delivery_cnt int, c_data varchar(500),
    primary key (c_w_id, c_d_id, c_id), foreign key (c_w_id, c_d_id) references district);
create index on customer (c_w_id, c_d_id, c_last, c_first);
create table history (h_c_id int, h_c_d_id int, h_c_w_id int, h_d_id int, h_w_id int, h_date timestamp, h_amount numeric(6, 2), h_data varchar(24));
create table orders (o_w_id int, o_d_id int, o_id int, o_c_id int, o_entry_d timestamp, o_carrier_id int, o_ol_cnt int, primary key (o_w_id, o_d_id, o_id),
    foreign key (o_w_id, o_d_id, o_c_id) references customer);
create index on orders (o_w_id, o_d_id, o_c_id, o_id);
create table new_order (no_w_id int, no_d_id int, no_o_id int, primary key (no_w_id, no_d_id, no_o_id));
create table item (i_id int primary key, i_name varchar(24), i_price numeric(5, 2), i_data varchar(50));
create table stock (s_w_id int, s_i_id int, s_quantity int, s_dist char(24), s_ytd int, s_order_cnt int, s_remote_cnt int, s_data varchar(50), primary key (s_w_id, s_i_id));
create table order_line (ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int, ol_supply_w_id int, ol_delivery_d timestamp, ol_quantity int, ol_amount numeric(6, 2),
    ol_dist_info char(24), primary key (ol_w_id, ol_d_id, ol_o_id, ol_number), foreign key (ol_w_id, ol_d_id, ol_o_id) references orders);
"""

SYLLABLES = "bar ought able pri pres ese anti cally ation eing".split()


def last_name(number):
    return "".join(SYLLABLES[int(digit)] for digit in f"{number:03}")


def load(client, warehouses, customers=3000, items=100_000):
    """Fills the tables. `customers`: of a district, and its orders at the beginning, of which seven in ten are delivered."""
    delivered = customers * 7 // 10
    name = "(array[" + ", ".join(f"'{part}'" for part in SYLLABLES) + "])"
    last = " || ".join(f"{name}[1 + (c - 1) % 1000 / {place} % 10]" for place in (100, 10, 1))
    run(client, SCHEMA)
    for statement in (
        f"insert into warehouse select w, 'house ' || w, 'street', 'city', 'NW', '123456789', 0.1, {customers} * 10 * 10.0 from generate_series(1, {warehouses}) w",
        f"insert into district select w, d, 'district', 'street', 'city', 0.05, {customers} * 10.0, {customers} + 1 from generate_series(1, {warehouses}) w, generate_series(1, 10) d",
        f"insert into customer select w, d, c, 'first ' || c, 'OE', {last}, case when c % 10 = 0 then 'BC' else 'GC' end, c % 50 / 100.0, -10, 10, 1, 0, repeat('data ', 60) "
        f"from generate_series(1, {warehouses}) w, generate_series(1, 10) d, generate_series(1, {customers}) c",
        "insert into history select c_id, c_d_id, c_w_id, c_d_id, c_w_id, now(), 10, 'history' from customer",
        f"insert into item select i, 'item ' || i, i % 9900 / 100.0 + 1, case when i % 10 = 0 then 'ORIGINAL' else 'plain' end from generate_series(1, {items}) i",
        f"insert into stock select w, i, 10 + i % 91, 'district', 0, 0, 0, 'data' from generate_series(1, {warehouses}) w, generate_series(1, {items}) i",
        # Each customer once, in an order of its own.
        f"insert into orders select w, d, o, 1 + o * 7::bigint % {customers}, now(), case when o <= {delivered} then 1 + o % 10 end, 5 + o % 11 "
        f"from generate_series(1, {warehouses}) w, generate_series(1, 10) d, generate_series(1, {customers}) o",
        f"insert into order_line select o_w_id, o_d_id, o_id, n, 1 + (o_id * 31 + n * 17) % {items}, o_w_id, case when o_id <= {delivered} then o_entry_d end, 5, "
        f"case when o_id <= {delivered} then 0 else (o_id * 13 + n) % 999900 / 100.0 + 0.01 end, 'district' from orders, generate_series(1, o_ol_cnt) n",
        f"insert into new_order select o_w_id, o_d_id, o_id from orders where o_id > {delivered}",
        "vacuum", "analyze",
    ):
        run(client, statement)


def run(client, sql):
    for answer in client.query(sql):
        if isinstance(answer, wire.Failure):
            raise RuntimeError(f"{answer.sqlstate}: {answer.message}: {sql[:200]}")


class Failed(Exception):
    """A statement failed; the transaction is to be run again if its SQLSTATE says so."""


STATEMENTS = {
    "tax": "select w_tax from warehouse where w_id = $1",
    "next": "update district set d_next_o_id = d_next_o_id + 1 where d_w_id = $1 and d_id = $2 returning d_next_o_id - 1, d_tax",
    "customer": "select c_discount, c_last, c_credit from customer where c_w_id = $1 and c_d_id = $2 and c_id = $3",
    "order": "insert into orders values ($1, $2, $3, $4, now(), null, $5)",
    "waiting": "insert into new_order values ($1, $2, $3)",
    "item": "select i_price, i_name, i_data from item where i_id = $1",
    "stock": "update stock set s_quantity = case when s_quantity >= $3 + 10 then s_quantity - $3 else s_quantity - $3 + 91 end, s_ytd = s_ytd + $3, s_order_cnt = s_order_cnt + 1, "
             "s_remote_cnt = s_remote_cnt + $4 where s_w_id = $1 and s_i_id = $2 returning s_quantity, s_dist",
    "line": "insert into order_line values ($1, $2, $3, $4, $5, $6, null, $7, $8, $9)",
    "house_paid": "update warehouse set w_ytd = w_ytd + $2 where w_id = $1 returning w_name",
    "district_paid": "update district set d_ytd = d_ytd + $3 where d_w_id = $1 and d_id = $2 returning d_name",
    "by_name": "select c_id, c_first, c_balance from customer where c_w_id = $1 and c_d_id = $2 and c_last = $3 order by c_first",
    "paid": "update customer set c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4, c_payment_cnt = c_payment_cnt + 1, "
            "c_data = case when c_credit = 'BC' then left($5 || c_data, 500) else c_data end where c_w_id = $1 and c_d_id = $2 and c_id = $3",
    "history": "insert into history values ($1, $2, $3, $4, $5, now(), $6, 'paid')",
    "last_order": "select o_id, o_entry_d, o_carrier_id from orders where o_w_id = $1 and o_d_id = $2 and o_c_id = $3 order by o_id desc limit 1",
    "lines": "select ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d from order_line where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3",
    "oldest": "select no_o_id from new_order where no_w_id = $1 and no_d_id = $2 order by no_o_id limit 1 for update",
    "taken": "delete from new_order where no_w_id = $1 and no_d_id = $2 and no_o_id = $3",
    "carried": "update orders set o_carrier_id = $4 where o_w_id = $1 and o_d_id = $2 and o_id = $3 returning o_c_id",
    "delivered": "update order_line set ol_delivery_d = now() where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3 returning ol_amount",
    "charged": "update customer set c_balance = c_balance + $4, c_delivery_cnt = c_delivery_cnt + 1 where c_w_id = $1 and c_d_id = $2 and c_id = $3",
    "low": "select count(distinct s_i_id) from order_line, stock, district where d_w_id = $1 and d_id = $2 and ol_w_id = d_w_id and ol_d_id = d_id and ol_o_id < d_next_o_id "
           "and ol_o_id >= d_next_o_id - 20 and s_w_id = ol_w_id and s_i_id = ol_i_id and s_quantity < $3",
}


class Terminal:
    """A client that runs one transaction after the other."""

    def __init__(self, port, warehouses, customers, items, seed):
        self.client, self.random = wire.Client(port), random.Random(seed)
        self.warehouses, self.customers, self.items = warehouses, customers, items
        for name, sql in STATEMENTS.items():
            failure = self.client.prepare(name, sql)
            if failure:
                raise RuntimeError(f"{failure.sqlstate}: {failure.message}: {sql}")

    def do(self, name, *values):
        """The rows of a statement, as lists of texts."""
        for answer in self.client.execute(name, [str(value) for value in values]):
            if isinstance(answer, wire.Failure):
                raise Failed(answer.sqlstate, answer.message)
            rows = answer.rows
        return [[value and value.decode() for value in row] for row in rows]

    def uneven(self, bits, low, high):
        """A number of the specification's uneven kind: some are met much more often."""
        return low + ((self.random.randrange(bits + 1) | self.random.randint(low, high)) % (high - low + 1))

    def place(self):
        return self.random.randint(1, self.warehouses), self.random.randint(1, 10)

    def some_customer(self, w, d):
        """A customer, by a last name in six of ten cases."""
        if self.random.random() < 0.4:
            return self.uneven(1023, 1, self.customers)
        found = self.do("by_name", w, d, last_name(self.uneven(255, 0, min(999, self.customers - 1))))
        return int(found[len(found) // 2][0])

    def order(self):
        (w, d), c = self.place(), self.uneven(1023, 1, self.customers)
        wanted = sorted(self.uneven(8191, 1, self.items) for _ in range(self.random.randint(5, 15)))
        if self.random.random() < 0.01:
            wanted[-1] = self.items + 1  # no such item: the order is taken back
        tax = self.do("tax", w)[0][0]
        number, district_tax = self.do("next", w, d)[0]
        discount = self.do("customer", w, d, c)[0][0]
        self.do("order", w, d, number, c, len(wanted))
        self.do("waiting", w, d, number)
        for line, item in enumerate(wanted, 1):
            found = self.do("item", item)
            if not found:
                return False
            house = self.random.randint(1, self.warehouses) if self.random.random() < 0.01 else w
            quantity = self.random.randint(1, 10)
            dist = self.do("stock", house, item, quantity, int(house != w))[0][1]
            self.do("line", w, d, number, line, item, house, quantity, round(quantity * float(found[0][0]), 2), dist)
        return float(tax) + float(district_tax) + float(discount) >= 0

    def payment(self):
        (w, d), amount = self.place(), self.random.randint(100, 500_000) / 100
        # Fifteen of a hundred pay elsewhere.
        customer_w, customer_d = self.place() if self.random.random() < 0.15 else (w, d)
        self.do("house_paid", w, amount)
        self.do("district_paid", w, d, amount)
        c = self.some_customer(customer_w, customer_d)
        self.do("paid", customer_w, customer_d, c, amount, f"{c} {customer_d} {customer_w} {d} {w} {amount} ")
        self.do("history", c, customer_d, customer_w, d, w, amount)
        return True

    def status(self):
        w, d = self.place()
        found = self.do("last_order", w, d, self.some_customer(w, d))
        if found:
            self.do("lines", w, d, found[0][0])
        return True

    def delivery(self):
        w, carrier = self.random.randint(1, self.warehouses), self.random.randint(1, 10)
        for d in range(1, 11):
            oldest = self.do("oldest", w, d)
            if not oldest:
                continue
            number = oldest[0][0]
            self.do("taken", w, d, number)
            customer = self.do("carried", w, d, number, carrier)[0][0]
            amounts = [round(float(row[0]) * 100) for row in self.do("delivered", w, d, number)]
            self.do("charged", w, d, customer, f"{sum(amounts) / 100:.2f}")
        return True

    def level(self):
        w, d = self.place()
        self.do("low", w, d, self.random.randint(10, 20))
        return True

    def run(self, seconds):
        """Transactions by kind that were committed, taken back and run again, and the times of orders in seconds."""
        counts, times, end = collections.Counter(), [], time.monotonic() + seconds
        kinds = {"order": 45, "payment": 43, "status": 4, "delivery": 4, "level": 4}
        while time.monotonic() < end:
            kind = self.random.choices(list(kinds), list(kinds.values()))[0]
            before = time.monotonic()
            run(self.client, "begin")
            try:
                ended = "commit" if getattr(self, kind)() else "rollback"
                run(self.client, ended)
                counts[kind if ended == "commit" else "taken back"] += 1
                if kind == "order":
                    times.append(time.monotonic() - before)
            except Failed as failure:
                run(self.client, "rollback")
                if failure.args[0] not in ("40001", "40P01"):
                    raise
                counts["again"] += 1
        return counts, times


# Each gives a row for what does not hold.
CONDITIONS = {
    1: "select w_id from warehouse where w_ytd <> (select sum(d_ytd) from district where d_w_id = w_id)",
    2: "select d_w_id, d_id from district where d_next_o_id - 1 <> (select max(o_id) from orders where o_w_id = d_w_id and o_d_id = d_id) "
       "or d_next_o_id - 1 <> (select max(no_o_id) from new_order where no_w_id = d_w_id and no_d_id = d_id)",
    3: "select no_w_id, no_d_id from new_order group by 1, 2 having max(no_o_id) - min(no_o_id) + 1 <> count(*)",
    4: "select * from (select o_w_id, o_d_id, sum(o_ol_cnt) from orders group by 1, 2) o full join (select ol_w_id, ol_d_id, count(*) from order_line group by 1, 2) l "
       "on (o_w_id, o_d_id) = (ol_w_id, ol_d_id) where sum is distinct from count",
    5: "select o_w_id, o_d_id, o_id from orders left join new_order on (no_w_id, no_d_id, no_o_id) = (o_w_id, o_d_id, o_id) where (o_carrier_id is null) <> (no_o_id is not null)",
    6: "select * from orders full join (select ol_w_id, ol_d_id, ol_o_id, count(*) from order_line group by 1, 2, 3) l on (ol_w_id, ol_d_id, ol_o_id) = (o_w_id, o_d_id, o_id) "
       "where o_ol_cnt is distinct from count",
    7: "select ol_w_id, ol_d_id, ol_o_id from order_line join orders on (ol_w_id, ol_d_id, ol_o_id) = (o_w_id, o_d_id, o_id) where (ol_delivery_d is null) <> (o_carrier_id is null)",
    8: "select w_id from warehouse where w_ytd <> (select sum(h_amount) from history where h_w_id = w_id)",
    9: "select d_w_id, d_id from district where d_ytd <> (select sum(h_amount) from history where h_w_id = d_w_id and h_d_id = d_id)",
    10: "select c_w_id, c_d_id, c_id from customer left join (select o_w_id, o_d_id, o_c_id, sum(ol_amount) as bought from orders, order_line "
        "where (ol_w_id, ol_d_id, ol_o_id) = (o_w_id, o_d_id, o_id) and ol_delivery_d is not null group by 1, 2, 3) b on (o_w_id, o_d_id, o_c_id) = (c_w_id, c_d_id, c_id) "
        "left join (select h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) as paid from history group by 1, 2, 3) h on (h_c_w_id, h_c_d_id, h_c_id) = (c_w_id, c_d_id, c_id) "
        "where c_balance <> coalesce(bought, 0) - coalesce(paid, 0)",
    12: "select c_w_id, c_d_id, c_id from customer left join (select o_w_id, o_d_id, o_c_id, sum(ol_amount) as bought from orders, order_line "
        "where (ol_w_id, ol_d_id, ol_o_id) = (o_w_id, o_d_id, o_id) and ol_delivery_d is not null group by 1, 2, 3) b on (o_w_id, o_d_id, o_c_id) = (c_w_id, c_d_id, c_id) "
        "where c_balance + c_ytd_payment <> coalesce(bought, 0)",
}


def violations(client):
    """Conditions that do not hold, with what shows it."""
    found = {}
    for number, sql in CONDITIONS.items():
        answer = client.query(sql)[-1]
        if isinstance(answer, wire.Failure):
            raise RuntimeError(f"{answer.sqlstate}: {answer.message}: {sql}")
        if answer.rows:
            found[number] = [[value and value.decode() for value in row] for row in answer.rows[:5]]
    return found


@dataclasses.dataclass
class Outcome:
    counts: dict
    orders_a_minute: float
    p99_ms: float  # of an order
    violations: dict


def terminal(port, scale, seed, seconds):
    return Terminal(port, *scale, seed).run(seconds)


def load_and_run(server, *, warehouses=2, customers=3000, items=100_000, clients=8, seconds=600, progress=lambda what: None):
    progress("loading")
    load(wire.Client(server.port, timeout=1800), warehouses, customers, items)
    checker = wire.Client(server.port, timeout=1800)
    if violations(checker):
        raise RuntimeError(f"what was loaded is not consistent: {violations(checker)}")
    progress(f"running for {seconds} s")
    scale = (warehouses, customers, items)
    with multiprocessing.Pool(clients) as pool:
        done = pool.starmap(terminal, [(server.port, scale, seed, seconds) for seed in range(clients)])
    counts = sum((counts for counts, _ in done), collections.Counter())
    times = sorted(time for _, times in done for time in times)
    progress("checking")
    return Outcome(dict(counts), counts["order"] * 60 / seconds, times[len(times) * 99 // 100] * 1000, violations(checker))
