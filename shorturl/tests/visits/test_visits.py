"""What is kept of a visit, whatever its headers say."""

import pytest

from shorturl.visits.classification import Visit, families_of, referrer_of, told_by, visit_of

WINDOWS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/129.0.0.0 Safari/537.36"
)
IPHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 "
    "(KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1"
)
IPAD = IPHONE.replace("iPhone; CPU iPhone OS", "iPad; CPU OS")
TABLET = (
    "Mozilla/5.0 (Linux; Android 13; SM-X906C) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/112.0.0.0 Safari/537.36"
)
TELEVISION = "Mozilla/5.0 (SMART-TV; Linux; Tizen 6.0) AppleWebKit/538.1 Version/6.0 TV Safari"
GOOGLEBOT = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"


@pytest.mark.parametrize(
    ("user_agent", "families"),
    [
        (WINDOWS, ("Chrome", "Windows", "Computer", False)),
        (IPHONE, ("Safari", "iOS", "Phone", False)),
        (IPAD, ("Safari", "iOS", "Tablet", False)),
        (TABLET, ("Chrome", "Android", "Tablet", False)),
        (TELEVISION, ("Other", "Tizen", "Other", False)),
        (GOOGLEBOT, ("Googlebot", "Other", "Other", True)),
        ("curl/8.5.0", ("curl", "Other", "Other", True)),
        ("Mozilla/5.0 (x)", ("Other", "Other", "Other", False)),
        ("\x00\xff" * 300, ("Other", "Other", "Other", True)),
        ("", ("", "", "", True)),
    ],
)
def test_a_user_agent_is_of_families_that_are_listed(
    user_agent: str, families: tuple[str, str, str, bool]
) -> None:
    assert families_of(user_agent) == families


LONG = ".".join(["a" * 63] * 3) + "." + "a" * 61  # 253 characters


@pytest.mark.parametrize(
    ("header", "referrer"),
    [
        ("", ""),
        ("https://News.Example/a/b?c=d#e", "news.example"),
        ("http://user:secret@news.example:8080/", "news.example"),
        ("android-app://com.example.mail/", "com.example.mail"),
        ("https://user@news.example?secret=2", "news.example"),
        ("https://news.example./", "news.example"),
        (f"https://{LONG}/", LONG),
        (f"https://{LONG}a/", "other"),
        (f"https://{'a' * 100_000}", "other"),
        ("https://" + "a/" * 100_000, "a"),
        ("/" * 100_000, "other"),
        ("https://[::1]/", "other"),
        ("https://b\xc3\xbccher.example/", "other"),
        ("https://a\x00b/", "other"),
        ("https:///", "other"),
        ("news.example", "other"),
        ("javascript:alert(1)", "other"),
        ("other", "other"),
    ],
)
def test_of_a_referrer_its_host_is_kept(header: str, referrer: str) -> None:
    assert referrer_of(header) == referrer


def test_without_any_header_it_is_a_bot_of_which_nothing_is_known() -> None:
    assert visit_of({}) == Visit()


def test_what_is_remembered_of_a_referrer_is_its_host() -> None:
    told_by.cache_clear()
    for path in ("", "/", "/a?secret=1", "/b#c", "?secret=2", "#secret", ":8000/a"):
        visit_of({"HTTP_REFERER": f"https://news.example{path}", "HTTP_USER_AGENT": WINDOWS})
    visit_of({"HTTP_REFERER": "https://name:secret@news.example/", "HTTP_USER_AGENT": WINDOWS})
    assert told_by.cache_info().currsize == 1
    for no_host in ("news.example/reset/secret", "/reset/secret", "secret"):
        visit_of({"HTTP_REFERER": no_host, "HTTP_USER_AGENT": WINDOWS})
    assert told_by.cache_info().currsize == 2
