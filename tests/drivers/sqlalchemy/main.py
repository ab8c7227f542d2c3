"""SQLAlchemy 2 with Alembic: tables created, reflected and compared with what was declared; migrations; the ORM with relationships, bulk changes, RETURNING, ON CONFLICT, locks and window functions."""

import datetime
import decimal
import enum
import os
import pprint
import re
import uuid

import sqlalchemy as sa
from alembic.autogenerate import api as autogenerate
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, aliased, joinedload, mapped_column, relationship, selectinload, subqueryload

engine = sa.create_engine("postgresql+psycopg://", connect_args={"host": os.environ["PGHOST"], "port": os.environ["PGPORT"]})


class Base(DeclarativeBase):
    pass


class State(enum.Enum):
    new = "new"
    paid = "paid"
    gone = "gone"


tagged = sa.Table("tagged", Base.metadata, sa.Column("item", sa.ForeignKey("items.id", ondelete="CASCADE"), primary_key=True), sa.Column("tag", sa.ForeignKey("tags.id", ondelete="CASCADE"), primary_key=True))


class Owner(Base):
    __tablename__ = "owners"
    __table_args__ = (sa.UniqueConstraint("name", "born", name="owners_name_born"), sa.CheckConstraint("length(name) > 0", name="named"), {"comment": "who has items"})
    id: Mapped[int] = mapped_column(sa.Identity(always=True, start=100, increment=2), primary_key=True)
    name: Mapped[str] = mapped_column(sa.String(50), index=True, comment="as it is said")
    born: Mapped[datetime.date | None]
    boss_id: Mapped[int | None] = mapped_column(sa.ForeignKey("owners.id", ondelete="SET NULL", deferrable=True, initially="DEFERRED"))
    boss: Mapped["Owner | None"] = relationship(remote_side=[id], back_populates="staff")
    staff: Mapped[list["Owner"]] = relationship(back_populates="boss", order_by="Owner.id")
    items: Mapped[list["Item"]] = relationship(back_populates="owner", order_by="Item.id", cascade="all, delete-orphan")


class Item(Base):
    __tablename__ = "items"
    __table_args__ = (
        sa.Index("items_state", "state", postgresql_where=sa.text("price > 0"), postgresql_include=["price"]),
        sa.Index("items_title_lower", sa.text("lower(title)"), unique=True),
        sa.Index("items_price", sa.text("price desc nulls last")),
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str] = mapped_column(sa.Text)
    price: Mapped[decimal.Decimal] = mapped_column(sa.Numeric(10, 2), server_default="0")
    doubled: Mapped[decimal.Decimal] = mapped_column(sa.Numeric(12, 2), sa.Computed("price * 2", persisted=True))
    state: Mapped[State] = mapped_column(sa.Enum(State, name="state"), default=State.new)
    data: Mapped[dict] = mapped_column(pg.JSONB, default=dict)
    tags_text: Mapped[list[str]] = mapped_column(pg.ARRAY(sa.Text), server_default="{}")
    made: Mapped[datetime.datetime] = mapped_column(sa.DateTime(timezone=True), server_default=sa.text("'2024-01-01 00:00:00+00'"))
    key: Mapped[uuid.UUID] = mapped_column(default=lambda: uuid.UUID(int=7))
    blob: Mapped[bytes | None]
    version: Mapped[int] = mapped_column(server_default="1")
    owner_id: Mapped[int | None] = mapped_column(sa.ForeignKey("owners.id", onupdate="CASCADE"))
    owner: Mapped[Owner | None] = relationship(back_populates="items")
    tags: Mapped[list["Tag"]] = relationship(secondary=tagged, back_populates="items", order_by="Tag.word")
    __mapper_args__ = {"version_id_col": version}


class Tag(Base):
    __tablename__ = "tags"
    id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True)
    word: Mapped[str] = mapped_column(sa.String(30), unique=True)
    items: Mapped[list[Item]] = relationship(secondary=tagged, back_populates="tags")


kinds = sa.Table(
    "kinds", Base.metadata, sa.Column("a", sa.SmallInteger, primary_key=True, autoincrement=False), sa.Column("b", sa.Integer, primary_key=True), sa.Column("c", sa.BigInteger), sa.Column("d", sa.Float), sa.Column("e", sa.REAL),
    sa.Column("f", sa.Double), sa.Column("g", sa.Numeric), sa.Column("h", sa.String), sa.Column("i", sa.CHAR(4)), sa.Column("j", sa.Boolean, server_default=sa.true()), sa.Column("k", sa.Date), sa.Column("l", sa.Time),
    sa.Column("m", sa.Time(timezone=True)), sa.Column("n", sa.DateTime), sa.Column("o", pg.TIMESTAMP(precision=3)), sa.Column("p", sa.Interval), sa.Column("q", pg.INTERVAL(fields="DAY TO SECOND")), sa.Column("r", sa.LargeBinary),
    sa.Column("s", sa.JSON), sa.Column("t", pg.ARRAY(sa.Integer, dimensions=2)), sa.Column("u", pg.OID), sa.Column("w", sa.Uuid), sa.Column("x", pg.ARRAY(sa.String(5))), sa.Column("y", sa.Enum(State, name="state")),
    sa.Column("z", pg.DOMAIN("small", sa.Integer, check="VALUE < 10")), schema="app")
counter = sa.Sequence("counter", start=5, increment=3, metadata=Base.metadata)


def show(label, value):
    shown = value if isinstance(value, str) else pprint.pformat(value, width=170, sort_dicts=True)
    print(f"{label}:", re.sub(r"0x[0-9a-f]+", "(address)", shown))


def failing(label, function, *arguments):
    try:
        show(label, ("no error", function(*arguments)))
    except sa.exc.DBAPIError as error:
        show(label, (type(error).__name__, error.orig.sqlstate, error.orig.diag.constraint_name, error.orig.diag.message_primary))
    except Exception as error:
        show(label, (type(error).__name__, str(error).splitlines()[0]))


def plain(value):
    """Reflected values without objects whose addresses would be printed."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(plain(inner) for inner in value) if isinstance(value, list) else tuple(map(plain, value))
    return repr(value) if isinstance(value, sa.types.TypeEngine) else value


def creating():
    with engine.begin() as connection:
        show("dialect", (connection.dialect.server_version_info[0], connection.dialect.default_schema_name, connection.get_isolation_level(), connection.dialect.max_identifier_length))
        connection.execute(sa.schema.CreateSchema("app"))
        connection.execute(sa.text("create view app.named as select 1 as id, 'x'::text as name"))
    Base.metadata.create_all(engine)
    Base.metadata.create_all(engine)


def reflecting():
    inspector = sa.inspect(engine)
    show("schemas", inspector.get_schema_names())
    show("sequences", sorted(inspector.get_sequence_names()))
    for schema in (None, "app"):
        show("tables", sorted(inspector.get_table_names(schema)))
        show("views", inspector.get_view_names(schema))
        show("materialized views", inspector.get_materialized_view_names(schema))
        show("enums", inspector.get_enums(schema))
        show("domains", inspector.get_domains(schema))
        for table in sorted(inspector.get_table_names(schema)):
            show(f"{table} columns", plain(inspector.get_columns(table, schema)))
            show(f"{table} key", inspector.get_pk_constraint(table, schema))
            show(f"{table} foreign keys", inspector.get_foreign_keys(table, schema))
            show(f"{table} indexes", inspector.get_indexes(table, schema))
            show(f"{table} unique", inspector.get_unique_constraints(table, schema))
            show(f"{table} checks", inspector.get_check_constraints(table, schema))
            show(f"{table} comment", inspector.get_table_comment(table, schema))
            show(f"{table} options", inspector.get_table_options(table, schema))
    show("view", inspector.get_view_definition("named", "app"))
    show("multi columns", plain(sorted((str(key), value) for key, value in inspector.get_multi_columns(kind=sa.engine.reflection.ObjectKind.ANY, scope=sa.engine.reflection.ObjectScope.ANY).items())))
    show("has", (inspector.has_table("items"), inspector.has_table("none"), inspector.has_sequence("counter"), inspector.has_schema("app"), inspector.has_index("items", "items_price")))
    failing("none", inspector.get_columns, "none")
    found = sa.MetaData()
    found.reflect(engine, views=True)
    found.reflect(engine, schema="app", views=True)
    for table in found.sorted_tables:
        print(sa.schema.CreateTable(table).compile(engine))
        for index in sorted(table.indexes, key=lambda index: index.name):
            print(sa.schema.CreateIndex(index).compile(engine))


def compared():
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True, "include_schemas": True})
        show("differences after create_all", autogenerate.compare_metadata(context, Base.metadata))


def migrating():
    """What a migration does, and what autogenerate finds then."""
    with engine.begin() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True, "include_schemas": True})
        op = Operations(context)
        op.create_table("moved", sa.Column("id", sa.Integer, primary_key=True), sa.Column("a", sa.String(10)), sa.Column("owner", sa.Integer))
        op.bulk_insert(sa.table("moved", sa.column("a"), sa.column("owner")), [{"a": "1", "owner": None}, {"a": "22", "owner": None}])
        op.add_column("moved", sa.Column("b", sa.Integer, nullable=False, server_default="5"))
        op.alter_column("moved", "b", server_default=None, new_column_name="bb")
        op.alter_column("moved", "a", type_=sa.Integer, postgresql_using="a::integer", nullable=False, comment="now a number")
        op.create_index("moved_a", "moved", ["a"], unique=True, postgresql_where=sa.text("a > 3"))
        op.create_foreign_key("moved_owner", "moved", "owners", ["owner"], ["id"], ondelete="CASCADE")
        op.create_check_constraint("small", "moved", "a < 1000")
        op.create_unique_constraint("moved_bb", "moved", ["bb", "a"])
        op.create_table_comment("moved", "has been moved")
        op.drop_constraint("small", "moved")
        op.rename_table("moved", "moved_on")
        op.drop_index("moved_a", "moved_on")
        op.execute("alter type state add value 'lost' before 'gone'")
        op.drop_column("items", "blob")
        op.alter_column("items", "title", type_=sa.String(100))
        op.alter_column("owners", "name", nullable=True)
        op.add_column("tags", sa.Column("color", pg.ENUM("red", "green", name="color", create_type=False).with_variant(sa.Text, "postgresql")))
        op.drop_constraint("owners_name_born", "owners")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True, "include_schemas": True})
        differences = autogenerate.compare_metadata(context, Base.metadata)
        show("differences", sorted(repr(difference) for difference in differences))
        produced = autogenerate.produce_migrations(context, Base.metadata)
        from alembic.autogenerate import render_python_code
        print(render_python_code(produced.upgrade_ops))
    with engine.begin() as connection:
        context = MigrationContext.configure(connection)
        op = Operations(context)
        for operation in produced.upgrade_ops.ops:
            for inner in getattr(operation, "ops", [operation]):
                op.invoke(inner)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "include_schemas": True})
        show("differences after the migration", autogenerate.compare_metadata(context, Base.metadata))


def objects():
    with Session(engine) as session:
        ann, bob = Owner(name="Ann", born=datetime.date(1980, 1, 2)), Owner(name="Bob")
        bob.boss = ann
        red, round_ = Tag(word="red"), Tag(word="round")
        ann.items = [Item(title="Apple", price=decimal.Decimal("1.50"), data={"kinds": ["a", 1]}, tags=[red, round_], tags_text=["x", "y"]), Item(title="Brick", state=State.paid, tags=[red], blob=b"\x00\x01")]
        bob.items = [Item(title="Cup", price=3)]
        session.add_all([ann, bob, Tag(word="unused")])
        session.flush()
        show("keys", (ann.id, bob.id, [item.id for item in ann.items], [(item.doubled, item.made, item.key) for item in ann.items]))
        session.commit()
    with Session(engine) as session:
        for option in (selectinload, joinedload, subqueryload):
            owners = session.scalars(sa.select(Owner).options(option(Owner.items).selectinload(Item.tags)).order_by(Owner.id).execution_options(populate_existing=True)).unique().all()
            show(option.__name__, [(owner.name, owner.boss.name if owner.boss else None, [(item.title, item.state, item.data, item.tags_text, [tag.word for tag in item.tags]) for item in owner.items]) for owner in owners])
        boss = aliased(Owner)
        show("join", session.execute(sa.select(Owner.name, boss.name).outerjoin(boss, Owner.boss).order_by(Owner.name)).all())
        show("exists", session.scalars(sa.select(Owner.name).where(Owner.items.any(Item.price > 2)).order_by(Owner.name)).all())
        show("none", session.scalars(sa.select(Tag.word).where(~Tag.items.any())).all())
        show("group", session.execute(sa.select(Owner.name, sa.func.count(Item.id), sa.func.sum(Item.price)).join(Owner.items).group_by(Owner.name).having(sa.func.count() > 0).order_by(sa.desc(sa.func.sum(Item.price)))).all())
        show("window", session.execute(sa.select(Item.title, sa.func.row_number().over(partition_by=Item.owner_id, order_by=Item.price.desc()), sa.func.sum(Item.price).over(order_by=Item.id, rows=(None, 0))).order_by(Item.id)).all())
        tree = sa.select(Owner.id, Owner.name, sa.literal(0).label("depth")).where(Owner.boss_id.is_(None)).cte("tree", recursive=True)
        tree = tree.union_all(sa.select(Owner.id, Owner.name, tree.c.depth + 1).join(tree, Owner.boss_id == tree.c.id))
        show("recursive", session.execute(sa.select(tree).order_by(tree.c.depth)).all())
        show("lateral", session.execute(sa.select(Owner.name, (best := sa.select(Item.title).where(Item.owner_id == Owner.id).order_by(Item.price.desc()).limit(1).lateral("best")).c.title).join(best, sa.true()).order_by(Owner.name)).all())
        show("json", session.execute(sa.select(Item.title, Item.data["kinds"][0].astext).where(Item.data.contains({"kinds": ["a"]}))).all())
        show("arrays", session.execute(sa.select(Item.title, Item.tags_text[1], sa.func.array_length(Item.tags_text, 1)).where(Item.tags_text.contains(["y"]), Item.tags_text.overlap(["x", "z"]), sa.any_(Item.tags_text) == "x")).all())
        show("aggregates", session.execute(sa.select(sa.func.array_agg(pg.aggregate_order_by(Item.title, Item.title.desc())), sa.func.string_agg(Item.title, ","), sa.func.count(sa.distinct(Item.state)), sa.func.jsonb_object_agg(Item.title, Item.price))).all())
        failing("within group", lambda: session.scalar(sa.select(sa.func.percentile_cont(0.5).within_group(Item.price))))
        session.rollback()
        show("case", session.execute(sa.select(Item.title, sa.case((Item.price > 2, "dear"), (Item.price > 1, "fair"), else_="cheap")).order_by(Item.title.desc())).all())
        show("dates", session.execute(sa.select(sa.extract("year", Item.made), sa.func.date_trunc("month", Item.made), sa.cast(Item.made, sa.Date), Item.made + datetime.timedelta(days=1)).limit(1)).all())
        show("union", session.execute(sa.union(sa.select(Item.title), sa.select(Tag.word)).order_by("title")).all())
        show("in", session.scalars(sa.select(Item.title).where(Item.id.in_([1, 2, 30]), sa.tuple_(Item.id, Item.title).in_([(1, "Apple"), (2, "x")]))).all())
        show("empty in", session.scalars(sa.select(Item.title).where(Item.id.in_([]))).all())
        show("like", session.scalars(sa.select(Item.title).where(Item.title.ilike("a%") | Item.title.regexp_match("^C") | Item.title.icontains("RICK", autoescape=True)).order_by(Item.title)).all())
        show("distinct on", session.scalars(sa.select(Item.title).distinct(Item.owner_id).order_by(Item.owner_id, Item.price.desc())).all())
        show("locked", session.scalars(sa.select(Item.title).with_for_update(skip_locked=True, of=Item).order_by(Item.id)).all())
        show("key share", session.scalars(sa.select(Owner.name).with_for_update(read=True, key_share=True).order_by(Owner.id)).all())
        show("sampled values", session.execute(sa.select(sa.values(sa.column("a", sa.Integer), sa.column("b", sa.Text), name="v").data([(1, "x"), (2, "y")]))).all())
        show("stream", [row for part in session.execute(sa.select(sa.func.generate_series(1, 7)).execution_options(yield_per=3)).partitions() for row in part])


def changing():
    with Session(engine) as session:
        show("bulk insert", session.scalars(sa.insert(Tag).returning(Tag.word, sort_by_parameter_order=True), [{"word": f"w{i}"} for i in range(2500)]).all()[-3:])
        session.execute(sa.update(Tag), [{"id": 1, "word": "RED"}, {"id": 2, "word": "ROUND"}])
        show("bulk update", session.scalars(sa.select(Tag.word).where(Tag.id < 3).order_by(Tag.id)).all())
        show("update returning", session.execute(sa.update(Item).where(Item.title == "Cup").values(price=Item.price + 1).returning(Item.title, Item.price, Item.doubled)).all())
        show("delete returning", len(session.scalars(sa.delete(Tag).where(Tag.word.like("w%")).returning(Tag.id)).all()))
        statement = pg.insert(Tag).values([{"word": "RED"}, {"word": "blue"}])
        show("do nothing", session.execute(statement.on_conflict_do_nothing(index_elements=["word"]).returning(Tag.word)).all())
        show("do update", session.execute(statement.on_conflict_do_update(constraint="tags_word_key", set_={"word": statement.excluded.word + "!"}, where=Tag.word != "blue").returning(Tag.word)).all())
        show("insert from", session.execute(sa.insert(Tag).from_select(["word"], sa.select(sa.func.lower(Item.title))).returning(Tag.word)).all())
        show("update from", session.execute(sa.update(Item).where(Item.owner_id == Owner.id, Owner.name == "Bob").values(data=sa.cast({"by": "Bob"}, pg.JSONB)).returning(Item.title, Owner.name)).all())
        show("delete using", session.execute(sa.delete(Tag).where(Tag.word == sa.func.lower(Item.title)).returning(Tag.word)).all().__len__())
        moved = sa.delete(Tag).where(Tag.word == "unused").returning(Tag.word).cte("moved")
        show("with", session.execute(sa.select(moved)).all())
        session.commit()
    with Session(engine) as session:
        show("nextval", (session.scalar(counter), session.execute(sa.select(counter.next_value())).scalar()))
        item = session.scalars(sa.select(Item).where(Item.title == "Apple")).one()
        item.data = {**item.data, "more": None}
        item.tags.pop()
        session.flush()
        show("version", item.version)
        session.execute(sa.update(Item).where(Item.id == item.id).values(version=99).execution_options(synchronize_session=False))
        item.title = "Pear"
        failing("stale", session.flush)
        session.rollback()
        with session.begin_nested():
            session.add(Tag(word="inner"))
        try:
            with session.begin_nested():
                session.add(Tag(word="inner"))
        except sa.exc.IntegrityError as error:
            show("unique", (error.orig.sqlstate, error.orig.diag.constraint_name, error.orig.diag.message_detail))
        session.commit()
        owner = session.scalars(sa.select(Owner).where(Owner.name == "Bob")).one()
        session.delete(owner)
        session.commit()
        show("left", (session.scalars(sa.select(Item.title).order_by(Item.id)).all(), session.scalars(sa.select(Owner.name)).all()))
        session.add(Owner(name=""))
        failing("check", session.flush)
        session.rollback()
        session.add(Item(title="apple"))
        failing("expression index", session.flush)
        session.rollback()
        session.add(Item(title="x", owner_id=12345))
        failing("foreign key", session.flush)
        session.rollback()
    values = {"a": 1, "b": 2, "c": 3, "d": 1.5, "e": 2.5, "f": 3.5, "g": decimal.Decimal("1.1"), "h": "h", "i": "i", "j": None, "k": datetime.date(2024, 1, 1), "l": datetime.time(1), "m": datetime.time(2, tzinfo=datetime.timezone.utc),
              "n": datetime.datetime(2024, 1, 1), "o": datetime.datetime(2024, 1, 1, 1, 1, 1, 123456), "p": datetime.timedelta(hours=30), "q": datetime.timedelta(days=2), "r": b"\xff", "s": [1, {"a": None}], "t": [[1, 2], [3, 4]], "u": 5,
              "w": uuid.UUID(int=9), "x": ["a", None], "y": State.paid, "z": 9}
    with engine.begin() as connection:
        connection.execute(kinds.insert(), values)
        show("kinds", dict(connection.execute(kinds.select()).mappings().one()))
        failing("domain", connection.execute, kinds.insert(), {"a": 2, "b": 2, "z": 10})
    for level in ("READ COMMITTED", "REPEATABLE READ", "AUTOCOMMIT"):
        with engine.connect().execution_options(isolation_level=level) as connection:
            show(level, connection.scalar(sa.text("show transaction_isolation")))


def removing():
    with engine.begin() as connection:
        connection.execute(sa.text("drop view app.named"))
        connection.execute(sa.text("drop table if exists moved, moved_on"))
    Base.metadata.drop_all(engine)
    show("left", (sa.inspect(engine).get_table_names(), sa.inspect(engine).get_table_names("app"), sa.inspect(engine).get_enums(), sa.inspect(engine).get_sequence_names()))


for part in (creating, reflecting, compared, objects, changing, migrating, removing):
    print(f"== {part.__name__}")
    try:
        part()
    except Exception as error:  # the rest is to be seen too
        print(f"{part.__name__} ended: {type(error).__name__}: {error}")
