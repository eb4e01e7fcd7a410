from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    """Check the rows that were there, under a lock that lets everybody read and write."""

    dependencies = [("shorturl", "0005_limit_and_expiry")]

    operations = [
        ValidateConstraint(model_name="shorturl", name="shorturl_shorturl_max_hits_ck"),
        ValidateConstraint(model_name="shorturl", name="shorturl_shorturl_limit_ck"),
    ]
