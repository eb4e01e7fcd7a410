"""All settings of the service, read once at start from the environment and from .env.

.env is beside manage.py, and .env.example describes each variable; comments here give further
reasons for a value. A wrong value stops the start with a message that names the variable. A
production has DATABASE_URL, SECRET_KEY and ALLOWED_HOSTS. Without DATABASE_URL this is a local run,
on an embedded PostgreSQL and for this machine alone.
"""

from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from pythonjsonlogger.core import RESERVED_ATTRS

from project.environment import (
    DATABASE_URL_EXAMPLE,
    HOSTS_EXAMPLE,
    choice,
    database,
    email,
    flag,
    hosts,
    invalid,
    local_secret_key,
    number,
    port_of_the_service,
    read_env_file,
    required,
    secret_key,
    text,
    url,
)

BASE_DIR = Path(__file__).resolve().parent.parent
LOOPBACK = "127.0.0.1,localhost,[::1]"
NAME_MAX = 40  # characters beside the links of the header
QUOTA_MAX = 1_000_000_000  # twice as many still fit into a counter

read_env_file(BASE_DIR / ".env")

# --- Where this runs -----------------------------------------------------------------------------

DATABASE_URL = text("DATABASE_URL")
LOCAL = flag("SHORTURL_LOCAL", default=not DATABASE_URL)
DEBUG = flag("DEBUG", default=False)

if LOCAL:
    SECRET_KEY = text("SECRET_KEY") or local_secret_key(BASE_DIR / ".local" / "secret-key")
    ALLOWED_HOSTS = hosts(text("ALLOWED_HOSTS", default=LOOPBACK), any_host=True)
else:
    required("DATABASE_URL", DATABASE_URL_EXAMPLE)
    SECRET_KEY = secret_key()
    ALLOWED_HOSTS = hosts(required("ALLOWED_HOSTS", HOSTS_EXAMPLE), any_host=False)
    if DEBUG:
        raise ImproperlyConfigured(
            "DEBUG is on, and error pages would show the code and the settings to every visitor: "
            "turn it off in a production, for example DEBUG=off (for a local run, set "
            "SHORTURL_LOCAL=on)"
        )

# --- The service ---------------------------------------------------------------------------------

# Whether `manage.py distribute` has distributed the tables. Then each statement has one key.
DATABASE_CITUS = flag("DATABASE_CITUS", default=False)
# Whether a redirect records its visit with the hit.
SHORTURL_VISITS = flag("SHORTURL_VISITS", default=True)
SHORTURL_GEOIP = text("SHORTURL_GEOIP")
SHORTURL_KEY_LENGTH = number("SHORTURL_KEY_LENGTH", default=7, least=1, most=20)
# One worker for each core. Threads are for requests to Django: redirects need none.
WORKERS = number("WORKERS", default=2, least=1, most=64)
THREADS = number("THREADS", default=6, least=1, most=64)
# Where gunicorn listens. With port 0 the kernel chooses a free one.
HOST = text("HOST", default="127.0.0.1")
PORT = number("PORT", default=8000, most=65_535)
QUEUE_TIMEOUT = number("QUEUE_TIMEOUT_MS", default=500, least=10, most=60_000) / 1000  # seconds
SHORTURL_PUBLIC_CREATE = flag("SHORTURL_PUBLIC_CREATE", default=LOCAL)
SHORTURL_PUBLIC_STATS = flag("SHORTURL_PUBLIC_STATS", default=LOCAL)
# Prometheus sends it to read /metrics. Without it nothing is counted, and the path is a 404.
SHORTURL_METRICS_TOKEN = text("SHORTURL_METRICS_TOKEN")
# For each token or account, and with PUBLIC for each network of visitors; 0 is no limit.
SHORTURL_LINKS_PER_DAY = number(
    "SHORTURL_LINKS_PER_DAY", default=0 if LOCAL else 10_000, most=QUOTA_MAX
)
SHORTURL_PUBLIC_LINKS_PER_DAY = number(
    "SHORTURL_PUBLIC_LINKS_PER_DAY", default=0 if LOCAL else 100, most=QUOTA_MAX
)
# A production has the lab off, and may not have it installed. A checkout has a folder pginterleave,
# too: without an origin, it is not the package.
LAB_INSTALLED = all((spec := find_spec(name)) and spec.origin for name in ("lab", "pginterleave"))
SHORTURL_LAB = flag("SHORTURL_LAB", default=LOCAL and LAB_INSTALLED)
if SHORTURL_LAB and not LAB_INSTALLED:
    raise ImproperlyConfigured(
        "SHORTURL_LAB is on, and this installation has no lab: turn it off, for example "
        "SHORTURL_LAB=off"
    )
# A public lab can be without the endpoints for load tests.
SHORTURL_LAB_LOAD = flag("SHORTURL_LAB_LOAD", default=LOCAL and SHORTURL_LAB)
if SHORTURL_LAB_LOAD and not SHORTURL_LAB:
    raise ImproperlyConfigured(
        "SHORTURL_LAB_LOAD is on, and the lab that it belongs to is off: set SHORTURL_LAB=on, or "
        "turn it off, for example SHORTURL_LAB_LOAD=off"
    )

# Whether the service also delivers events, as `manage.py deliver` does.
SHORTURL_DELIVER = flag("SHORTURL_DELIVER", default=False)

# --- The operator's own ---------------------------------------------------------------------------

SHORTURL_NAME = text("SHORTURL_NAME", default="shorturl")
if len(SHORTURL_NAME) > NAME_MAX:
    raise invalid("SHORTURL_NAME", f" is longer than {NAME_MAX} characters", "links")
SHORTURL_LOGO = text("SHORTURL_LOGO")
SHORTURL_HOME_REDIRECT = url("SHORTURL_HOME_REDIRECT")
SHORTURL_IMPRINT_URL = url("SHORTURL_IMPRINT_URL")
SHORTURL_ABUSE_URL = url("SHORTURL_ABUSE_URL", schemes=("https", "http", "mailto"))

# --- PostgreSQL ----------------------------------------------------------------------------------

DATABASE_STATEMENT_TIMEOUT = number("DATABASE_STATEMENT_TIMEOUT", default=10)
# No redirect waits longer for its row, and no transaction of the service is longer.
DATABASE_LOCK_TIMEOUT = number("DATABASE_LOCK_TIMEOUT", default=1)
# No transaction of the service pauses. One that does has lost its process, and keeps its locks.
DATABASE_IDLE_IN_TRANSACTION_TIMEOUT = 10  # seconds
# By the service's own clock, for a PostgreSQL that is frozen. Longer than a statement may take: one
# that PostgreSQL itself ends leaves the connection open.
DATABASE_REQUEST_TIMEOUT = DATABASE_STATEMENT_TIMEOUT and DATABASE_STATEMENT_TIMEOUT + 2
# For a server that does not answer, and when the network no longer acknowledges sent packets.
DATABASE_CONNECT_TIMEOUT = 3  # seconds
# After this silence PostgreSQL probes a session's client three times within the same time, so that
# a machine that is gone keeps no lock for long. PostgreSQL's default begins after two hours.
DATABASE_KEEPALIVE = 30  # seconds
# Within a statement PostgreSQL would notice only at its end that the client has gone.
DATABASE_CLIENT_CHECK_INTERVAL = 5  # seconds
# With a PgBouncer, no settings are sent with a connection, and no cursor outlives a transaction.
DATABASE_POOLER = choice("DATABASE_POOLER", default="none", choices=("none", "transaction"))

_parameters = {
    "statement_timeout": f"{DATABASE_STATEMENT_TIMEOUT}s",
    # A session waits for a row twice: to become the next in the queue, and then for the lock.
    # PostgreSQL's limit is for each wait.
    "lock_timeout": f"{DATABASE_LOCK_TIMEOUT * 500}ms",
    "idle_in_transaction_session_timeout": f"{DATABASE_IDLE_IN_TRANSACTION_TIMEOUT}s",
    "client_connection_check_interval": f"{DATABASE_CLIENT_CHECK_INTERVAL}s",
    "tcp_keepalives_idle": f"{DATABASE_KEEPALIVE}s",
    "tcp_keepalives_interval": f"{-(-DATABASE_KEEPALIVE // 3)}s",
    "tcp_keepalives_count": "3",
}


def _configured(database: dict[str, Any], *, pooled: bool) -> dict[str, Any]:
    # Options in the URL (?sslmode=require&connect_timeout=10) win.
    options: dict[str, Any] = {
        "application_name": "shorturl",
        "connect_timeout": DATABASE_CONNECT_TIMEOUT,
        "tcp_user_timeout": DATABASE_CONNECT_TIMEOUT * 1000,  # milliseconds
        "keepalives_idle": DATABASE_CONNECT_TIMEOUT,
        "keepalives_interval": DATABASE_CONNECT_TIMEOUT,
        **database.get("OPTIONS", {}),
    }
    if not pooled:
        sent = [f"-c {name}={value}" for name, value in _parameters.items()]
        options["options"] = " ".join([*sent, options.get("options", "")]).strip()
    return {
        # Another address of the host, after a failover, is found within this time, in seconds. No
        # health checks, as each is a round trip: unavailable.py notices a closed connection.
        "CONN_MAX_AGE": 600,
        "DISABLE_SERVER_SIDE_CURSORS": pooled,
        **database,
        "OPTIONS": options,
    }


if DATABASE_URL:
    _database = database(DATABASE_URL)
else:
    _directory = BASE_DIR / ".postgres"
    _database = {"ENGINE": "embedded_postgres", "NAME": "shorturl", "DIRECTORY": _directory}
DATABASES = {"default": _configured(_database, pooled=DATABASE_POOLER == "transaction")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- Django --------------------------------------------------------------------------------------

ROOT_URLCONF = "project.urls"

INSTALLED_APPS = [
    "project.apps.ProjectConfig",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "axes",
    "csp",
    "ninja",
    # Before the product, whose templates the lab's extend. pginterleave.picture has its styles.
    *(["lab.apps.LabConfig", "pginterleave.picture"] if SHORTURL_LAB else []),
    "shorturl.apps.ShortUrlConfig",
    *(["shorturl.strategies.exhibits.apps.ExhibitsConfig"] if SHORTURL_LAB else []),
]

MIDDLEWARE = [
    *(["project.observability.metrics.count_responses"] if SHORTURL_METRICS_TOKEN else []),
    "project.observability.request_id.echo_request_id",
    "project.serving.unavailable.DatabaseUnavailableMiddleware",
    "project.serving.middleware.head",
    "project.serving.middleware.bare_redirects",
    "project.observability.health.probes",
    "django.middleware.security.SecurityMiddleware",
    "project.serving.middleware.content_security_policy",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "project.serving.middleware.no_store",
    "project.serving.middleware.body_limit",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "shorturl.api.error_responses.methods_in_json",
    "project.serving.middleware.redirects_and_calls",
    # Only for pages, and calls with a session:
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "axes.middleware.AxesMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}Validator"}
    for name in ("UserAttributeSimilarity", "MinimumLength", "CommonPassword", "NumericPassword")
]
# Passwords that all workers together hash at a time. A hash takes a processor for half a second, so
# redirects keep half of the processors. With one place, one network could take it.
LOGIN_HASHES = max(2, WORKERS // 2)
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "project.accounts.login.LimitedBackend",
]
# More than a person mistypes, and 60 guesses an hour for each network.
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = timedelta(minutes=5)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
# A refused attempt does not prolong the pause, and the right password resets the count.
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_RESET_ON_SUCCESS = True
AXES_CLIENT_IP_CALLABLE = "shorturl.limits.client_address.first_address"
AXES_USERNAME_CALLABLE = "project.accounts.login.counted_name"
AXES_LOCKOUT_CALLABLE = "project.accounts.login.locked_out"
AXES_SENSITIVE_PARAMETERS = ["username"]  # may be a password in the wrong field
AXES_DISABLE_ACCESS_LOG = True
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "index"
# form-action in the Content-Security-Policy refuses a form that ends at another site.
LOGOUT_REDIRECT_URL = "login" if SHORTURL_HOME_REDIRECT else "index"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False

# The host and port of SHORTURL_ORIGIN.
_host = ALLOWED_HOSTS[0].removeprefix(".").replace("*", "localhost")
# The process and port of a local service that uses the embedded PostgreSQL.
SERVED_AT = BASE_DIR / ".local" / "served-at"
_served_at = "8000" if DATABASE_URL else port_of_the_service(SERVED_AT)
_port = f":{text('PORT', default=_served_at)}" if LOCAL else ""

# Without it no e-mail can be sent, and no page offers to reset a password.
EMAIL_URL = text("EMAIL_URL", default="consolemail://" if LOCAL else "")
globals().update(email(EMAIL_URL))
EMAIL_TIMEOUT = 10  # seconds; a thread waits that long for the mail server
DEFAULT_FROM_EMAIL = text("EMAIL_FROM", default=f"shorturl@{_host}")

STATIC_URL = "/static/"
STATICFILES_FINDERS = ["project.static_files.Finder"]
# A local run serves the files from the packages. In a production `collectstatic` copies them here,
# each under a name with its hash, so that clients may cache it for ever.
STATIC_ROOT = None if LOCAL else BASE_DIR / "staticfiles"
WHITENOISE_USE_FINDERS = LOCAL
_hashed = "project.static_files.Storage"
_storage = "django.contrib.staticfiles.storage.StaticFilesStorage" if LOCAL else _hashed
STORAGES = {"staticfiles": {"BACKEND": _storage}}

# The longest body that a form or an API call needs is some 24 kB: a target URL of 2,000 characters
# of four bytes each, every byte percent-encoded. The 2 MB are for bulk creation. Copies of such a
# body are in PostgreSQL and in each thread that has one. Django's own default is 2.5 MB.
SHORTURL_BODY_MAX = 64 * 1024
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024

# --- Security ------------------------------------------------------------------------------------

HTTPS = flag("HTTPS", default=not LOCAL)
SHORTURL_ORIGIN = f"{'https' if HTTPS else 'http'}://{_host}{_port}"
if SHORTURL_HOME_REDIRECT.rstrip("/") == SHORTURL_ORIGIN:
    raise invalid(
        "SHORTURL_HOME_REDIRECT", " is the page that redirects there", "https://example.com/page"
    )
SECURE_SSL_REDIRECT = HTTPS
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0  # a year, the least for hstspreload.org
# `check --deploy` warns unless both are set, on or off.
SECURE_HSTS_INCLUDE_SUBDOMAINS = flag("HSTS_INCLUDE_SUBDOMAINS", default=False)
SECURE_HSTS_PRELOAD = flag("HSTS_PRELOAD", default=False)
HSTS_DECISIONS = {"HSTS_INCLUDE_SUBDOMAINS": "security.W005", "HSTS_PRELOAD": "security.W021"}
SILENCED_SYSTEM_CHECKS = [check for name, check in HSTS_DECISIONS.items() if text(name)]
# Without a proxy any client can send this header.
if flag("BEHIND_PROXY", default=False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
# Without a proxy a client can send another X-Forwarded-For with every wrong password.
PROXY_CLIENT_ADDRESS = flag("PROXY_CLIENT_ADDRESS", default=False)
SESSION_ENGINE = "project.accounts.sessions"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    }
}

# --- Logging -------------------------------------------------------------------------------------

LOG_FORMAT = choice("LOG_FORMAT", default="line", choices=("line", "json"))
# By default Django logs errors to the console only with DEBUG.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"},
        "json": {
            "()": "pythonjsonlogger.json.JsonFormatter",
            "fmt": "{asctime}{levelname}{name}{message}{request_id}",
            "style": "{",
            "rename_fields": {"asctime": "time", "levelname": "level", "name": "logger"},
            "reserved_attrs": [*RESERVED_ATTRS, "request"],
        },
    },
    "filters": {"request_id": {"()": "project.observability.request_id.RequestIdFilter"}},
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": LOG_FORMAT,
            "filters": ["request_id"],
        }
    },
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        "django": {"handlers": ["console"], "level": "WARNING", "propagate": False},
        # Scanners request hosts and paths of all kinds. The 400 or 404 is not logged.
        "django.security": {"level": "CRITICAL"},
        "django.security.csrf": {"level": "WARNING"},
        "django.request": {"level": "ERROR"},
        "gunicorn.error": {"handlers": ["console"], "level": "WARNING", "propagate": False},
    },
}
