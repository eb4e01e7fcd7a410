"""`manage.py distribute` where there is no Citus; test_on_citus.py has the rest."""

import pytest
from django.core.management import CommandError, call_command

from project.database import citus

pytestmark = pytest.mark.django_db


def test_without_the_extension_it_is_told() -> None:
    with pytest.raises(
        CommandError, match=r"This database has no Citus: .* CREATE EXTENSION citus"
    ):
        call_command("distribute")
    with pytest.raises(CommandError, match="no Citus, so none of its tables is distributed"):
        call_command("distribute", "--undo")


@pytest.mark.parametrize("other", ["--undo", "--dry-run"])
def test_the_table_of_strategies_goes_alone(other: str) -> None:
    with pytest.raises(CommandError, match="--strategies goes alone, without --dry-run and --undo"):
        call_command("distribute", "--strategies", other)


def test_without_the_extension_the_sql_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("distribute", "--dry-run")
    shown = capsys.readouterr()
    assert shown.err.startswith("This database has no Citus")
    beside = "'key', colocate_with => 'shorturl_shorturl');"
    assert [line for line in shown.out.splitlines() if "create_distributed_table" in line] == [
        "SELECT create_distributed_table('shorturl_shorturl', 'key');",
        f"SELECT create_distributed_table('shorturl_partialcount', {beside}",
        f"SELECT create_distributed_table('shorturl_visitcount', {beside}",
    ]
    call_command("distribute", "--dry-run", "--undo")
    undone = capsys.readouterr().out
    assert undone.count("SELECT undistribute_table") == shown.out.count("SELECT create_")


def test_accounts_and_what_is_tied_to_them_are_on_every_node() -> None:
    """In the order of their foreign keys; what nothing ties to them stays a plain table."""
    order = [model._meta.db_table for model in citus.reference_models()]
    assert {"auth_user", "shorturl_apitoken", "django_admin_log"} < {*order}
    assert {*order}.isdisjoint({"django_session", "shorturl_spending", "shorturl_keptanswer"})
    assert order.index("auth_user") < order.index("shorturl_apitoken")
    assert order.index("django_content_type") < order.index("auth_permission")
