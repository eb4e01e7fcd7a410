from django.db import migrations, models
from django.db.models.functions import Now

ID = models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")
LINK = models.ForeignKey(
    "shorturl.ShortUrl",
    models.DO_NOTHING,
    to_field="key",
    db_column="key",
    related_name="+",
    db_constraint=False,
    db_index=False,
)


class Migration(migrations.Migration):
    initial = True
    dependencies = [("shorturl", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="PartialCount",
            fields=[
                ("id", ID.clone()),
                ("short_url", LINK.clone()),
                ("slot", models.PositiveSmallIntegerField(null=True)),
                ("hits", models.PositiveBigIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=["short_url", "slot"], name="exhibits_partialcount_slot_uk"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ReuseClaim",
            fields=[("digest", models.BinaryField(primary_key=True, serialize=False))],
        ),
        migrations.CreateModel(
            name="SingleCreate",
            fields=[
                ("id", ID.clone()),
                ("spender", models.CharField(max_length=100)),
                ("since", models.DateTimeField(db_default=Now())),
            ],
        ),
    ]
