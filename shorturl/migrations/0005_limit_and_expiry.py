import django.core.validators
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models


class Migration(migrations.Migration):
    """Add two columns that are NULL, and two CHECKs of which only new rows are held to.

    None of it reads the table, so that the lock, which nobody gets past, is held for some
    milliseconds. What the rows that are there hold is checked by the next migration, beside all
    traffic.
    """

    dependencies = [("shorturl", "0004_owners")]

    operations = [
        migrations.AddField(
            model_name="shorturl",
            name="max_hits",
            field=models.BigIntegerField(
                blank=True,
                null=True,
                validators=[django.core.validators.MinValueValidator(1)],
                verbose_name="limit",
            ),
        ),
        migrations.AddField(
            model_name="shorturl",
            name="expires_at",
            field=models.DateTimeField(blank=True, null=True, verbose_name="expiry"),
        ),
        AddConstraintNotValid(
            model_name="shorturl",
            constraint=models.CheckConstraint(
                condition=models.Q(max_hits__gte=1), name="shorturl_shorturl_max_hits_ck"
            ),
        ),
        AddConstraintNotValid(
            model_name="shorturl",
            constraint=models.CheckConstraint(
                condition=models.Q(hits__lte=models.F("max_hits")),
                name="shorturl_shorturl_limit_ck",
            ),
        ),
    ]
