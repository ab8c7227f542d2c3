"""Django: migrations of its own applications and of a shop's models, the ORM over them, inspectdb, dumpdata and flush; every statement of the migrations is printed."""

import datetime
import decimal
import io
import os
import pathlib
import re
import sys
import tempfile
import uuid

import django
from django.conf import settings

FOLDER = pathlib.Path(tempfile.mkdtemp())
(FOLDER / "written").mkdir()
(FOLDER / "written" / "__init__.py").touch()
sys.path[:0] = [str(FOLDER), str(pathlib.Path(__file__).parent)]
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres", "HOST": os.environ["PGHOST"], "PORT": os.environ["PGPORT"]}},
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions", "django.contrib.sites", "django.contrib.admin", "django.contrib.messages", "django.contrib.flatpages", "django.contrib.redirects",
                    "django.contrib.postgres", "shop"],
    MIGRATION_MODULES={"shop": "written"}, DEFAULT_AUTO_FIELD="django.db.models.BigAutoField", USE_TZ=True, TIME_ZONE="UTC", SITE_ID=1, SECRET_KEY="of a test", SILENCED_SYSTEM_CHECKS=["admin.E403", "admin.E408", "admin.E409", "admin.E410"],
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"])
django.setup()

from django.contrib.auth.models import Group, Permission, User
from django.contrib.postgres.aggregates import ArrayAgg, BoolOr, JSONBAgg, StringAgg
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.db import IntegrityError, OperationalError, connection, migrations, models, transaction
from django.db.models import Avg, Case, Count, Exists, ExpressionWrapper, F, Max, Min, OuterRef, Prefetch, Q, StdDev, Subquery, Sum, Value, When, Window
from django.db.models.functions import (Cast, Coalesce, Concat, ExtractYear, FirstValue, Greatest, JSONObject, Lag, Length, Lower, Now, Rank, Round, RowNumber, Substr, TruncDay, TruncMonth, Upper)
from django.db.utils import DataError
from shop.models import Category, Delivery, Invoice, Line, Order, Product, Supplier


def show(label, value):
    if isinstance(value, models.QuerySet):
        value = list(value)
    print(re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+\+00", "(now)", f"{label}: {value!r}"))


def called(*arguments, **options):
    """What a command prints, without escapes, times and the name of the folder."""
    output = io.StringIO()
    call_command(*arguments, stdout=output, stderr=output, no_color=True, **options)
    print(re.sub(re.escape(str(FOLDER)) + r"|\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:[\d.]+)?Z?", "(here)", output.getvalue()))


def failing(label, function):
    try:
        with transaction.atomic():
            show(label, ("no error", function()))
    except Exception as error:
        cause = error.__cause__
        found = (getattr(cause, "sqlstate", None), cause.diag.constraint_name, cause.diag.message_detail) if hasattr(cause, "diag") else str(error).splitlines()[0]
        show(label, (type(error).__name__, found))


def migrating():
    called("makemigrations", "shop", verbosity=1)
    for application, name in [("contenttypes", "0001"), ("auth", "0001"), ("shop", "0001"), ("admin", "0001"), ("sessions", "0001"), ("sites", "0001"), ("flatpages", "0001"), ("redirects", "0001")]:
        called("sqlmigrate", application, name)
    called("migrate", verbosity=1)
    called("showmigrations", verbosity=1)
    called("migrate", "--check")
    called("makemigrations", "--check", "--dry-run")
    called("check", databases=["default"])
    show("permissions", Permission.objects.count())


def altering():
    """A second migration: columns and constraints added, changed, renamed and dropped, a function run on the rows, and all of it undone."""
    (FOLDER / "written" / "0002_more.py").write_text('''
from django.db import migrations, models

def forwards(apps, editor):
    Category = apps.get_model("shop", "Category")
    for category in Category.objects.order_by("pk"):
        category.rank = category.pk * 10
        category.save()

class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial")]
    operations = [
        migrations.AddField("category", "rank", models.IntegerField(default=1)),
        migrations.AddField("category", "about", models.TextField(null=True, db_comment="for people")),
        migrations.RunPython(forwards, migrations.RunPython.noop),
    ]
''')
    (FOLDER / "written" / "0003_still_more.py").write_text('''
from django.db import migrations, models

class Migration(migrations.Migration):
    dependencies = [("shop", "0002_more")]
    operations = [
        migrations.AlterField("category", "rank", models.BigIntegerField(null=True, db_index=True)),
        migrations.AlterField("category", "name", models.CharField(max_length=90)),
        migrations.RenameField("category", "about", "text"),
        migrations.AlterField("category", "text", models.CharField(max_length=10, default="x", db_index=True, null=True)),
        migrations.AddConstraint("category", models.CheckConstraint(condition=models.Q(rank__gt=0), name="ranked")),
        migrations.AddIndex("category", models.Index(fields=["rank", "name"], name="rank_name")),
        migrations.RenameIndex("category", "rank_new", old_name="rank_name"),
        migrations.AlterUniqueTogether("delivery", {("product", "supplier", "amount")}),
        migrations.AlterModelTableComment("category", "a tree"),
        migrations.AlterModelTable("supplier", "shop_suppliers"),
        migrations.RenameModel("Line", "Position"),
        migrations.CreateModel("Extra", [("id", models.SmallAutoField(primary_key=True)), ("product", models.OneToOneField("shop.product", models.CASCADE)), ("on", models.DateField())]),
        migrations.AlterField("extra", "id", models.BigAutoField(primary_key=True)),
        migrations.RemoveField("category", "text"),
        migrations.RemoveConstraint("category", "ranked"),
    ]
''')
    called("sqlmigrate", "shop", "0002")
    called("sqlmigrate", "shop", "0003")
    called("migrate", "shop", "0003", verbosity=1)
    with connection.cursor() as cursor:
        cursor.execute("select id, name, rank from shop_category order by id")
        show("rows", cursor.fetchall())
    called("migrate", "shop", "0001", verbosity=1)


def filling():
    root = Category.objects.create(name="All", slug="all")
    food, tools = (Category.objects.create(name=name, slug=name.lower(), parent=root) for name in ("Food", "Tools"))
    suppliers = Supplier.objects.bulk_create([Supplier(id=uuid.UUID(int=i), name=f"Supplier {i}") for i in range(1, 4)])
    apple = Product.objects.create(title="Apple", category=food, price=decimal.Decimal("1.50"), attributes={"color": "red", "sizes": [1, 2], "deep": {"er": None}}, keywords=["fruit", "red"], since=datetime.date(2024, 1, 31),
                                   opens=datetime.time(9, 30), guarantee=datetime.timedelta(days=2, hours=3), manual=b"\x00\xff", weight=0.25, ean=4006381333931, stock=10)
    show("created", (apple.pk, apple.gross, apple.created is not None))
    others = Product.objects.bulk_create([Product(title=title, category=category, price=price, keywords=words, sizes=sizes, stock=stock, state=state)
                                          for title, category, price, words, sizes, stock, state in [("Bread", food, 3, ["daily"], [[1, 2], [3, 4]], 5, "l"), ("Hammer", tools, 20, [], None, 0, "s"), ("Saw", tools, 15, ["sharp", "red"], None, 7, "l")]])
    show("bulk", [(product.pk, product.title) for product in others])
    Delivery.objects.bulk_create([Delivery(product=apple, supplier=suppliers[0], amount=3), Delivery(product=apple, supplier=suppliers[1], amount=4), Delivery(product=others[1], supplier=suppliers[1], amount=5)])
    apple.related.add(*others[:2])
    user = User.objects.create_user("ann", "ann@example.org", "secret", last_login=datetime.datetime(2024, 5, 1, tzinfo=datetime.timezone.utc))
    user.groups.add(Group.objects.create(name="buyers"))
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="shop", codename__startswith="add_"))
    show("permissions", (user.has_perm("shop.add_product"), user.has_perm("shop.delete_product"), User.objects.get(username="ann").get_all_permissions().__len__()))
    for number, lines in enumerate([[(apple, 2), (others[0], 1)], [(others[2], 1)], []], 1):
        order = Order.objects.create(buyer=user if number < 3 else None, number=number)
        Line.objects.bulk_create([Line(order=order, product=product, amount=amount) for product, amount in lines])
    invoice = Invoice.objects.create(buyer=user, number=50, due=datetime.date(2024, 2, 1))
    invoice.refresh_from_db()
    show("inherited", (invoice.order_ptr_id, invoice.note, Order.objects.get(number=50).invoice.due))
    Session.objects.create(session_key="k", session_data="d", expire_date=datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc))
    called("clearsessions")
    show("sessions", Session.objects.count())


def querying():
    products = Product.objects.order_by("title")
    show("lookups", [list(products.filter(**{key: value}).values_list("title", flat=True)) for key, value in [
        ("title__icontains", "A"), ("title__startswith", "Sa"), ("title__iexact", "saw"), ("title__regex", r"^[AB]"), ("title__iregex", "^h"), ("title__endswith", "d"), ("price__range", (2, 16)), ("price__in", [3, 15]), ("weight__isnull", False),
        ("since__year", 2024), ("since__month", 1), ("since__week_day", 4), ("opens__hour", 9), ("created__date__gt", datetime.date(2020, 1, 1)), ("guarantee__gt", datetime.timedelta(days=1)), ("category__parent__name", "All"),
        ("category__name__in", Category.objects.filter(slug__contains="oo").values("name")), ("attributes__color", "red"), ("attributes__deep__er", None), ("attributes__has_key", "color"), ("attributes__sizes__0", 1), ("attributes__contains", {"color": "red"}),
        ("attributes__color__icontains", "E"), ("attributes", {}), ("keywords__contains", ["red"]), ("keywords__overlap", ["daily", "sharp"]), ("keywords__contained_by", ["fruit", "red", "x"]), ("keywords__len", 2), ("keywords__0", "sharp"), ("keywords", []),
        ("keywords__0_1", ["daily"]), ("sizes__0__1", 2), ("suppliers__name__endswith", "1"), ("delivery__amount__gt", 3), ("related__title", "Bread"), ("ean", 4006381333931), ("manual", b"\x00\xff"), ("pk__lt", 3)]])
    show("conditions", products.filter((Q(price__lt=2) | Q(price__gt=16)) & ~Q(title="x"), stock__gte=F("price") - 30).exclude(category__name="None").values_list("title"))
    show("annotate", products.annotate(n=Count("suppliers", distinct=True), total=Sum("delivery__amount"), most=Max("delivery__amount"), few=Count("delivery", filter=Q(delivery__amount__lt=4))).values_list("title", "n", "total", "most", "few"))
    show("aggregate", sorted(products.aggregate(Avg("price"), Sum("stock"), Min("title"), Max("created__year"), StdDev("price"), n=Count("*"), some=Count("weight")).items()))
    show("groups", Product.objects.values("category__name").annotate(n=Count("id"), sum=Sum("price")).filter(n__gt=1).order_by("-sum"))
    show("of postgres", [sorted(Product.objects.aggregate(titles=ArrayAgg("title", order_by="-title"), words=StringAgg("title", "; ", order_by="title"), some=BoolOr("active"), objects=ArrayAgg("state", distinct=True, order_by="state")).items())])
    show("subquery", products.annotate(last=Subquery(Line.objects.filter(product=OuterRef("pk")).order_by("-amount").values("amount")[:1])).values_list("title", "last"))
    show("exists", products.filter(Exists(Line.objects.filter(product=OuterRef("pk"), amount__gt=1))).values_list("title"))
    show("window", products.annotate(place=Window(Rank(), partition_by="category", order_by=F("price").desc()), number=Window(RowNumber(), order_by="title"), before=Window(Lag("title"), order_by="title"), first=Window(FirstValue("title"), partition_by="category",
                            order_by="id"), running=Window(Sum("price"), order_by="title")).values_list("title", "place", "number", "before", "first", "running"))
    show("filtered window", Product.objects.annotate(place=Window(RowNumber(), partition_by="category", order_by="-price")).filter(place=1).order_by("title").values_list("title", "place"))
    show("case", products.annotate(kind=Case(When(price__lt=2, then=Value("cheap")), When(state="s", then=Value("gone")), default=Value("other"), output_field=models.CharField())).values_list("title", "kind"))
    show("functions", products.annotate(a=Concat("title", Value("-"), "state"), b=Upper(Substr("title", 1, 2)), c=Length("title"), d=Coalesce("weight", 0.5), e=Cast("price", models.IntegerField()), f=Greatest("stock", "price", output_field=models.DecimalField()),
                            g=Round(F("price") / 7, 3), h=F("price") % 2, i=ExpressionWrapper(F("price") * F("stock"), output_field=models.DecimalField())).values_list("title", *"abcdefghi"))
    show("dates", [list(products.filter(since__isnull=False).annotate(a=TruncMonth("since"), b=ExtractYear("since"), c=F("since") + datetime.timedelta(days=1), d=TruncDay("created", tzinfo=datetime.timezone.utc)).values_list("a", "b", "c")),
                   list(Product.objects.dates("since", "year")), Product.objects.datetimes("created", "year").count(), Product.objects.filter(created__lte=Now()).count()])
    show("objects", Product.objects.order_by("id").annotate(o=JSONObject(t="title", p="price", c="category__name")).values_list("o", flat=True))
    show("values of json", products.values_list("attributes__color", "attributes__sizes", "keywords__0"))
    show("set operations", (sorted(products.order_by().filter(price__lt=4).values_list("title").union(products.order_by().filter(stock=0).values_list("title"))), list(products.order_by().values_list("title").difference(products.order_by().filter(price__gt=2).values_list("title"))),
                            list(products.order_by().filter(price__lt=4).values_list("title").intersection(products.order_by().filter(stock=5).values_list("title")))))
    show("related", [(product.title, product.category.parent.name, [supplier.name for supplier in product.suppliers.all()]) for product in products.select_related("category__parent").prefetch_related(Prefetch("suppliers", Supplier.objects.order_by("name")))])
    show("distinct on", Product.objects.order_by("category_id", "-price").distinct("category_id").values_list("title"))
    show("slices", (list(products.values_list("title", flat=True)[1:3]), products.reverse()[0].title, products.count(), products.exists(), products.first().title, products.in_bulk([1, 2]).keys()))
    show("iterator", len(list(products.iterator(chunk_size=2))))
    # Cursors WITH HOLD outside of transactions, others inside.
    with transaction.atomic():
        show("iterator in a transaction", [product.title for product in products.iterator(chunk_size=2)])
    show("raw", [(product.title, product.more) for product in Product.objects.raw("select id, title, stock + %s as more from shop_product where stock > %s order by id", [1, 6])])
    show("search", list(Product.objects.annotate(lower=Lower("title")).filter(lower__in=["saw"]).values_list("lower")))
    print(re.sub(r"cost=\S+ rows=\d+ width=\d+", "", Product.objects.filter(pk=1).explain()).split(" on ")[0])


def changing():
    show("update", (Product.objects.filter(category__name="Tools").update(price=F("price") + 1, attributes={"new": True}), Product.objects.filter(title="Saw").values_list("price", "gross", "attributes").get()))
    show("update by subquery", Product.objects.update(stock=Coalesce(Subquery(Delivery.objects.filter(product=OuterRef("pk")).values("product").annotate(s=Sum("amount")).values("s")), 0)))
    show("bulk update", Product.objects.bulk_update([Product(pk=1, title="Apples", keywords=["a"]), Product(pk=2, title="Breads", keywords=[])], ["title", "keywords"]))
    show("get or create", [Category.objects.get_or_create(slug="new", defaults={"name": "New"})[1] for _ in range(2)] + [Category.objects.update_or_create(slug="new", defaults={"name": "Newer"})[1]])
    show("conflicts", (len(Category.objects.bulk_create([Category(name="Newer", slug="x"), Category(name="Other", slug="other")], ignore_conflicts=True)),
                       [category.name for category in Category.objects.bulk_create([Category(name="Again", slug="other")], update_conflicts=True, unique_fields=["slug"], update_fields=["name"])], Category.objects.count()))
    failing("unique", lambda: Category.objects.create(name="Food", slug="food2"))
    failing("check", lambda: Product.objects.create(title="x", category_id=1, price=-1))
    failing("expression", lambda: Product.objects.create(title="APPLES", category_id=1, price=1))
    failing("foreign key", lambda: (Product.objects.create(title="y", category_id=999, price=1), connection.check_constraints()))
    failing("too long", lambda: Category.objects.create(name="n" * 81, slug="long"))
    failing("protected", lambda: Category.objects.get(name="Food").delete())
    failing("restricted", lambda: Product.objects.get(title="Apples").delete())
    failing("deferred", lambda: Product.objects.filter(title__in=["Breads", "Apples"]).update(ean=1))
    failing("nested", lambda: outer())
    with transaction.atomic():
        show("for update", list(Product.objects.select_for_update(of=("self",)).select_related("category").order_by("id").values_list("title", "category__name")))
        show("no key", list(Category.objects.select_for_update(no_key=True, skip_locked=True).order_by("id").values_list("name", flat=True)))
        transaction.set_rollback(True)
    show("outside", outside())
    order = Order.objects.get(number=1)
    show("delete", (order.delete(), Order.objects.count(), Line.objects.count()))
    show("set null", (User.objects.filter(username="ann").delete()[0], Order.objects.filter(buyer=None).count()))
    show("queryset delete", Line.objects.filter(amount__gte=1).delete())
    with connection.cursor() as cursor:
        cursor.execute("select %s, %s::text[], 'it''s 100%%'", [None, ["a", "b"]])
        show("cursor", (cursor.fetchone(), [column.name for column in cursor.description]))


def outer():
    Category.objects.create(name="outer", slug="outer")
    try:
        with transaction.atomic():
            Category.objects.create(name="outer", slug="other name")
    except IntegrityError:
        pass
    count = Category.objects.filter(name="outer").count()
    transaction.set_rollback(True)
    return count


def outside():
    try:
        list(Product.objects.select_for_update())
    except transaction.TransactionManagementError as error:
        return str(error)


def looking():
    called("inspectdb")
    with connection.cursor() as cursor:
        for table in sorted(connection.introspection.get_table_list(cursor)):
            show("table", table)
            show("description", connection.introspection.get_table_description(cursor, table.name))
            show("constraints", sorted(connection.introspection.get_constraints(cursor, table.name).items()))
            show("relations", sorted(connection.introspection.get_relations(cursor, table.name).items()))
            show("sequences", connection.introspection.get_sequences(cursor, table.name))
    called("dumpdata", "shop.category", "shop.supplier", "shop.delivery", indent=1)
    called("sqlsequencereset", "shop", "auth")
    called("flush", interactive=False)
    show("after flush", (Category.objects.count(), Permission.objects.count(), Category.objects.create(name="first", slug="first").pk))
    called("migrate", "shop", "zero", verbosity=1)


for part in (migrating, filling, querying, changing, altering, looking):
    print(f"== {part.__name__}")
    try:
        part()
    except Exception as error:  # the rest is to be seen too
        print(f"{part.__name__} ended: {type(error).__name__}: {error}")
