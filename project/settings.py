"""All settings of the service, read once at start from the environment and from .env.

.env stands beside manage.py, and .env.example says what each variable is; here is only what else
led to its value. What is wrong stops the start with a message that names the variable. A production
has DATABASE_URL, SECRET_KEY and ALLOWED_HOSTS; without DATABASE_URL this is a local run, on a
PostgreSQL of its own and for this machine alone.
"""

import sys
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from project.environment import (
    DATABASE_URL_EXAMPLE,
    DAY,
    HOSTS_EXAMPLE,
    choice,
    database,
    email,
    env,
    flag,
    hosts,
    local_secret_key,
    number,
    read_env_file,
    required,
    secret_key,
    text,
)

BASE_DIR = Path(__file__).resolve().parent.parent
LOOPBACK = "127.0.0.1,localhost,[::1]"
QUOTA_MAX = 1_000_000_000  # what a counter holds without an overflow, also twice

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
            "DEBUG is on, and error pages would show everybody the code and the settings: turn it "
            "off in a production, for example DEBUG=off (for a local run, set SHORTURL_LOCAL=on)"
        )

# --- The service ---------------------------------------------------------------------------------

SHORTURL_CREATING = text("SHORTURL_CREATING", default="on_conflict")
SHORTURL_RESOLVING = text("SHORTURL_RESOLVING", default="combined")
SHORTURL_REUSING = text("SHORTURL_REUSING", default="advisory_lock")
SHORTURL_IDEMPOTENCY = text("SHORTURL_IDEMPOTENCY", default="advisory_lock")
SHORTURL_SPENDING = text("SHORTURL_SPENDING", default="reservation")
# Whether `manage.py distribute` has distributed the tables: each statement is of one key then.
DATABASE_CITUS = flag("DATABASE_CITUS", default=False)
# How a redirect records its visit with the hit; off, it only counts, by SHORTURL_RESOLVING, as it
# does too where that names another strategy than its default.
_recording = "one_transaction" if DATABASE_CITUS else "combined"
SHORTURL_VISITS = text(
    "SHORTURL_VISITS", default=_recording if SHORTURL_RESOLVING == "combined" else "off"
)
SHORTURL_VISITS = "" if SHORTURL_VISITS == "off" else SHORTURL_VISITS
SHORTURL_ROLLING_UP = text("SHORTURL_ROLLING_UP", default="by_key" if DATABASE_CITUS else "batches")
SHORTURL_DELIVERING = text("SHORTURL_DELIVERING", default="update_skip_locked")
# Days for which visits are known by the hour, and then by the day; later by the month.
SHORTURL_VISITS_HOURLY_DAYS = number("SHORTURL_VISITS_HOURLY_DAYS", default=14, most=36_500)
# The overview compares the last 30 days with the 30 before.
SHORTURL_VISITS_DAILY_DAYS = number(
    "SHORTURL_VISITS_DAILY_DAYS", default=730, least=61, most=36_500
)
SHORTURL_GEOIP = text("SHORTURL_GEOIP")
SHORTURL_KEY_LENGTH = number("SHORTURL_KEY_LENGTH", default=7, least=1, most=20)
# One for each core. The threads are Django's: redirects need none of them.
WORKERS = number("WORKERS", default=2, least=1, most=64)
THREADS = number("THREADS", default=6, least=1, most=64)
MACHINES = number("MACHINES", default=1, least=1, most=1_000)  # which share the database
QUEUE_TIMEOUT = number("QUEUE_TIMEOUT_MS", default=500, least=10, most=60_000) / 1000  # seconds
SHORTURL_PUBLIC_CREATE = flag("SHORTURL_PUBLIC_CREATE", default=LOCAL)
SHORTURL_PUBLIC_STATS = flag("SHORTURL_PUBLIC_STATS", default=LOCAL)
# What Prometheus sends to read /metrics; without it nothing is counted, and the path is not there.
SHORTURL_METRICS_TOKEN = text("SHORTURL_METRICS_TOKEN")
# For each token or account, and for each address where anybody may create; 0 is no limit.
SHORTURL_LINKS_PER_DAY = number(
    "SHORTURL_LINKS_PER_DAY", default=0 if LOCAL else 10_000, most=QUOTA_MAX
)
SHORTURL_CREATES_PER_MINUTE = number(
    "SHORTURL_CREATES_PER_MINUTE", default=0 if LOCAL else 300, most=QUOTA_MAX
)
SHORTURL_PUBLIC_LINKS_PER_DAY = number(
    "SHORTURL_PUBLIC_LINKS_PER_DAY", default=0 if LOCAL else 100, most=QUOTA_MAX
)
SHORTURL_PUBLIC_CREATES_PER_MINUTE = number(
    "SHORTURL_PUBLIC_CREATES_PER_MINUTE", default=0 if LOCAL else 10, most=QUOTA_MAX
)
# Off wherever others rely on the service, and an installation can be without it. A checkout has a
# folder pginterleave, too: without an origin, it is not the package.
LAB_INSTALLED = all((spec := find_spec(name)) and spec.origin for name in ("lab", "pginterleave"))
SHORTURL_LAB = flag("SHORTURL_LAB", default=LOCAL and LAB_INSTALLED)
if SHORTURL_LAB and not LAB_INSTALLED:
    raise ImproperlyConfigured(
        "SHORTURL_LAB is on, and this installation has no lab: turn it off, for example "
        "SHORTURL_LAB=off"
    )
SHORTURL_EXHIBITS = SHORTURL_LAB  # whether a strategy that is not right may serve
# A lab that is open to others need not have it.
SHORTURL_LAB_LOAD = flag("SHORTURL_LAB_LOAD", default=LOCAL and SHORTURL_LAB)
if SHORTURL_LAB_LOAD and not SHORTURL_LAB:
    raise ImproperlyConfigured(
        "SHORTURL_LAB_LOAD is on, and it is a part of the lab, which is off: set SHORTURL_LAB=on, "
        "or turn it off, for example SHORTURL_LAB_LOAD=off"
    )

# Whether the service, when it starts, explores what the lab's pages show and nobody has explored.
SHORTURL_LAB_EXPLORE = flag("SHORTURL_LAB_EXPLORE", default=False)
# Whether the service also delivers events, as `manage.py deliver` does.
SHORTURL_DELIVER = flag("SHORTURL_DELIVER", default=False)

# --- PostgreSQL ----------------------------------------------------------------------------------

DATABASE_STATEMENT_TIMEOUT = number("DATABASE_STATEMENT_TIMEOUT", default=10)
# Nobody who follows a short URL waits longer for its row, and no transaction here is longer.
DATABASE_LOCK_TIMEOUT = number("DATABASE_LOCK_TIMEOUT", default=1)
DATABASE_IDLE_IN_TRANSACTION_TIMEOUT = number("DATABASE_IDLE_IN_TRANSACTION_TIMEOUT", default=10)
# Longer than a statement may take, so that PostgreSQL ends it first if it can, and the connection
# is kept.
DATABASE_REQUEST_TIMEOUT = number(
    "DATABASE_REQUEST_TIMEOUT",
    default=DATABASE_STATEMENT_TIMEOUT and min(DATABASE_STATEMENT_TIMEOUT + 2, DAY),
)
# When connecting, and when the network no longer acknowledges what is sent.
DATABASE_CONNECT_TIMEOUT = number("DATABASE_CONNECT_TIMEOUT", default=3, least=2, most=60)
# PostgreSQL asks three times within as long again; by default it begins after two hours.
DATABASE_KEEPALIVE = number("DATABASE_KEEPALIVE", default=30)
DATABASE_CLIENT_CHECK_INTERVAL = number("DATABASE_CLIENT_CHECK_INTERVAL", default=5)
DATABASE_CONNECTION_AGE = number("DATABASE_CONNECTION_AGE", default=600)
# Off, as a check is a round trip more: project/serving/unavailable.py notices without one that the
# server has closed a connection.
DATABASE_HEALTH_CHECKS = flag("DATABASE_HEALTH_CHECKS", default=False)
# PgBouncer refuses settings sent with the connection; a cursor must not outlive its transaction.
DATABASE_POOLER = choice("DATABASE_POOLER", default="none", choices=("none", "transaction"))

DATABASE_DIRECT_URL = text("DATABASE_DIRECT_URL")

_parameters = {
    "statement_timeout": f"{DATABASE_STATEMENT_TIMEOUT}s",
    # Who waits for a row waits twice, to be the next in the queue and then for its lock, and
    # PostgreSQL's limit is for each.
    "lock_timeout": f"{DATABASE_LOCK_TIMEOUT * 500}ms",
    "idle_in_transaction_session_timeout": f"{DATABASE_IDLE_IN_TRANSACTION_TIMEOUT}s",
    "client_connection_check_interval": f"{DATABASE_CLIENT_CHECK_INTERVAL}s",
    "tcp_keepalives_idle": f"{DATABASE_KEEPALIVE}s",
    "tcp_keepalives_interval": f"{-(-DATABASE_KEEPALIVE // 3)}s",
    "tcp_keepalives_count": "3",
}


def _configured(database: dict[str, Any], *, pooled: bool) -> dict[str, Any]:
    # What the URL itself says of a connection (?sslmode=require&connect_timeout=10) wins.
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
        "CONN_MAX_AGE": DATABASE_CONNECTION_AGE,
        "CONN_HEALTH_CHECKS": DATABASE_HEALTH_CHECKS,
        "DISABLE_SERVER_SIDE_CURSORS": pooled,
        **database,
        "OPTIONS": options,
    }


if DATABASE_URL:
    _database = database(DATABASE_URL)
else:
    _directory = BASE_DIR / ".postgres"
    _database = {"ENGINE": "embedded_postgres", "NAME": "shorturl", "DIRECTORY": _directory}
SERVICE_DATABASE = _configured(_database, pooled=DATABASE_POOLER == "transaction")
DATABASES = {"default": SERVICE_DATABASE}
# Commands go past the pooler: a migration may take long, and the lab's explorations tell sessions
# apart and make databases of their own.
DIRECT_DATABASE: dict[str, Any] = {}
if DATABASE_DIRECT_URL:
    _direct = database(DATABASE_DIRECT_URL, name="DATABASE_DIRECT_URL")
    DIRECT_DATABASE = _configured(_direct, pooled=False)
    if "manage.py" in (Path(word).name for word in sys.orig_argv):
        DATABASES = {"default": DIRECT_DATABASE}
# What may be as old as DATABASE_REPLICA_LAG is read there: project/database/replica.py.
DATABASE_REPLICA_URL = text("DATABASE_REPLICA_URL")
DATABASE_REPLICA_LAG = number("DATABASE_REPLICA_LAG", default=10, least=1)
if DATABASE_REPLICA_URL:
    _replica = database(DATABASE_REPLICA_URL, name="DATABASE_REPLICA_URL")
    DATABASES["replica"] = _configured(_replica, pooled=DATABASE_POOLER == "transaction")
    DATABASES["replica"]["TEST"] = {"MIRROR": "default"}
    DATABASE_ROUTERS = ["project.database.replica.Router"]
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
    # First: its templates extend the product's. The other has the styles of its pictures.
    *(["lab.apps.LabConfig", "pginterleave.picture"] if SHORTURL_LAB else []),
    "shorturl.apps.ShortUrlConfig",
]

MIDDLEWARE = [
    "project.serving.unavailable.DatabaseUnavailableMiddleware",
    "project.serving.middleware.head",
    "project.serving.middleware.bare_redirects",
    "project.observability.health.probes",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "project.serving.middleware.no_store",
    "project.serving.middleware.body_limit",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    *(["project.database.replica.ReplicaMiddleware"] if DATABASE_REPLICA_URL else []),
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
LOGIN_FAILURES = number("LOGIN_FAILURES", default=5, least=1, most=1_000)
LOGIN_PAUSE = number("LOGIN_PAUSE", default=300, least=1)
# Each takes a processor for half a second. With fewer than two, one network could take them all.
LOGIN_HASHES = number("LOGIN_HASHES", default=2, least=2, most=64)
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "project.accounts.login.LimitedBackend",
]
AXES_FAILURE_LIMIT = LOGIN_FAILURES
AXES_COOLOFF_TIME = timedelta(seconds=LOGIN_PAUSE)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
# What is refused does not make the pause longer, and the right password ends the count.
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_RESET_ON_SUCCESS = True
AXES_CLIENT_IP_CALLABLE = "shorturl.limits.client_address.client_address"
AXES_LOCKOUT_CALLABLE = "project.accounts.login.locked_out"
AXES_SENSITIVE_PARAMETERS = ["username"]  # which may be a password in the wrong field
AXES_DISABLE_ACCESS_LOG = True
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "index"
LOGOUT_REDIRECT_URL = "index"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False

# Where the service is, for the links of commands.
_host = ALLOWED_HOSTS[0].removeprefix(".").replace("*", "localhost")
_port = f":{text('PORT', default='8000')}" if LOCAL else ""

# Without it nothing can be sent, and no page offers to reset a password.
EMAIL_URL = text("EMAIL_URL", default="consolemail://" if LOCAL else "")
globals().update(email(EMAIL_URL))
EMAIL_TIMEOUT = 10  # seconds; a thread waits that long for the mail server
DEFAULT_FROM_EMAIL = text("EMAIL_FROM", default=f"shorturl@{_host}")

STATIC_URL = "/static/"
# A local run serves the files from where they are. In production `collectstatic` copies them here,
# and gives each a name with its hash, to be cached for ever.
STATIC_ROOT = None if LOCAL else BASE_DIR / "staticfiles"
WHITENOISE_USE_FINDERS = LOCAL
_whitenoise = "whitenoise.storage.CompressedManifestStaticFilesStorage"
_storage = "django.contrib.staticfiles.storage.StaticFilesStorage" if LOCAL else _whitenoise
STORAGES = {"staticfiles": {"BACKEND": _storage}}

# The longest body that a form or an API call needs is some 24 kB: a target URL of 2,000 characters
# of four bytes each, every byte percent-encoded. Many links at once may have 2 kB each, of which
# PostgreSQL and every thread that has such a body keep copies. Django's own default is 2.5 MB.
SHORTURL_BODY_MAX = 64 * 1024
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024

# --- Security ------------------------------------------------------------------------------------

HTTPS = flag("HTTPS", default=not LOCAL)
SHORTURL_ORIGIN = f"{'https' if HTTPS else 'http'}://{_host}{_port}"
SECURE_SSL_REDIRECT = HTTPS
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SECURE_HSTS_SECONDS = number(
    "HSTS_SECONDS", default=31_536_000 if HTTPS else 0, least=0, most=63_072_000
)
# `check --deploy` asks for a decision, and takes either word for one.
SECURE_HSTS_INCLUDE_SUBDOMAINS = flag("HSTS_INCLUDE_SUBDOMAINS", default=False)
SECURE_HSTS_PRELOAD = flag("HSTS_PRELOAD", default=False)
HSTS_DECISIONS = {"HSTS_INCLUDE_SUBDOMAINS": "security.W005", "HSTS_PRELOAD": "security.W021"}
SILENCED_SYSTEM_CHECKS = [check for name, check in HSTS_DECISIONS.items() if text(name)]
# Without the proxy anybody can claim to have come by HTTPS.
if flag("BEHIND_PROXY", default=False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", cast=str.strip, default=[])
# Anybody can send an X-Forwarded-For, and so be somebody else at every wrong password.
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
# Django by itself logs errors to the console only with DEBUG.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "class": "project.observability.log.LineFormatter",
            "format": "{asctime} {levelname} {name}: {message}",
            "style": "{",
        },
        "json": {
            "()": "project.observability.log.JsonFormatter",
            "fmt": "{asctime}{levelname}{name}{message}{request_id}",
            "style": "{",
            "rename_fields": {"asctime": "time", "levelname": "level", "name": "logger"},
        },
    },
    "filters": {"request_id": {"()": "project.observability.request_id.RequestIdFilter"}},
    "handlers": {
        "console": {
            "class": "project.observability.log.SummingHandler",
            "formatter": LOG_FORMAT,
            "filters": ["request_id"],
        }
    },
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        "django": {"handlers": ["console"], "level": "WARNING", "propagate": False},
        # Scanners ask for hosts and paths of all kinds. Each gets its 400 or 404, and no line here.
        "django.security.DisallowedHost": {"level": "CRITICAL"},
        "django.request": {"level": "ERROR"},
    },
}
