"""The models of a shop: what a real application's have."""

import uuid

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Lower, Now


class Stamped(models.Model):
    created = models.DateTimeField(db_default=Now())
    changed = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True


class Category(models.Model):
    name = models.CharField(max_length=80, unique=True)
    slug = models.SlugField(unique=True)
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.CASCADE, related_name="children")

    class Meta:
        verbose_name_plural = "categories"
        ordering = ["name"]


class Supplier(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    name = models.TextField()
    address = models.CharField(max_length=200, default="", db_comment="where the parcels come from")
    website = models.URLField(blank=True)


class Product(Stamped):
    class State(models.TextChoices):
        DRAFT = "d"
        LISTED = "l"
        SOLD_OUT = "s"

    title = models.CharField(max_length=200, db_index=True)
    category = models.ForeignKey(Category, on_delete=models.PROTECT, related_name="products")
    suppliers = models.ManyToManyField(Supplier, through="Delivery", related_name="products")
    related = models.ManyToManyField("self", blank=True)
    price = models.DecimalField(max_digits=10, decimal_places=2)
    gross = models.GeneratedField(expression=models.F("price") * 2, output_field=models.DecimalField(max_digits=12, decimal_places=2), db_persist=True)
    state = models.CharField(max_length=1, choices=State.choices, default=State.DRAFT)
    attributes = models.JSONField(default=dict, blank=True)
    keywords = ArrayField(models.CharField(max_length=20), default=list, blank=True)
    sizes = ArrayField(ArrayField(models.IntegerField()), null=True)
    weight = models.FloatField(null=True)
    stock = models.PositiveIntegerField(default=0)
    ean = models.PositiveBigIntegerField(null=True)
    active = models.BooleanField(default=True)
    since = models.DateField(null=True)
    opens = models.TimeField(null=True)
    guarantee = models.DurationField(null=True)
    manual = models.BinaryField(null=True)

    class Meta:
        db_table_comment = "what is sold"
        constraints = [
            models.CheckConstraint(condition=models.Q(price__gte=0), name="price_not_negative"),
            models.UniqueConstraint(fields=["title", "category"], name="one_title_per_category"),
            models.UniqueConstraint(Lower("title"), condition=models.Q(active=True), name="active_titles"),
            models.UniqueConstraint(fields=["ean"], name="ean_deferred", deferrable=models.Deferrable.DEFERRED),
            models.UniqueConstraint(fields=["weight", "opens"], nulls_distinct=False, name="weight_opens", condition=models.Q(weight__isnull=False)),
        ]
        indexes = [
            models.Index(fields=["-created", "state"], name="newest"),
            models.Index(Lower("title"), "price", name="titles_lower"),
            models.Index(fields=["price"], name="cheap", condition=models.Q(price__lt=10), include=["title"]),
        ]


class Delivery(models.Model):
    product = models.ForeignKey(Product, on_delete=models.CASCADE)
    supplier = models.ForeignKey(Supplier, on_delete=models.CASCADE)
    amount = models.SmallIntegerField()

    class Meta:
        unique_together = [("product", "supplier")]


class Order(Stamped):
    buyer = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    note = models.TextField(blank=True, db_default="none")
    number = models.BigIntegerField(unique=True)


class Line(models.Model):
    order = models.ForeignKey(Order, on_delete=models.CASCADE, related_name="lines")
    product = models.ForeignKey(Product, on_delete=models.RESTRICT)
    amount = models.IntegerField()


class Invoice(Order):
    """A table that inherits from another: one to one."""

    due = models.DateField()
