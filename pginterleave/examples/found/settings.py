"""Settings with all the packages that are looked at."""

import sys
from pathlib import Path

from oscar.defaults import *  # noqa: F403 - as Oscar's documentation has it

PACKAGE = Path(__file__).resolve().parents[2]
sys.path.append(str(PACKAGE.parent))  # where embedded_postgres lies

DATABASES = {
    "default": {"ENGINE": "embedded_postgres", "NAME": "found", "DIRECTORY": PACKAGE / ".postgres"}
}
SECRET_KEY = "found"
USE_TZ = True
SITE_ID = 1
ROOT_URLCONF = "found.settings"
urlpatterns: list[object] = []
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"},
    "database": {"BACKEND": "django.core.cache.backends.db.DatabaseCache", "LOCATION": "cache"},
}
HAYSTACK_CONNECTIONS = {"default": {"ENGINE": "haystack.backends.simple_backend.SimpleEngine"}}
WAFFLE_CREATE_MISSING_SWITCHES = True
POST_OFFICE = {"BACKENDS": {"default": "found.queued_mail.KeepingBackend"}}
OSCAR_APPS = [
    "oscar.config.Shop",
    "oscar.apps.analytics.apps.AnalyticsConfig",
    "oscar.apps.checkout.apps.CheckoutConfig",
    "oscar.apps.address.apps.AddressConfig",
    "oscar.apps.shipping.apps.ShippingConfig",
    "oscar.apps.catalogue.apps.CatalogueConfig",
    "oscar.apps.catalogue.reviews.apps.CatalogueReviewsConfig",
    "oscar.apps.communication.apps.CommunicationConfig",
    "oscar.apps.partner.apps.PartnerConfig",
    "oscar.apps.basket.apps.BasketConfig",
    "oscar.apps.payment.apps.PaymentConfig",
    "oscar.apps.offer.apps.OfferConfig",
    "oscar.apps.order.apps.OrderConfig",
    "oscar.apps.customer.apps.CustomerConfig",
    "oscar.apps.search.apps.SearchConfig",
    "oscar.apps.voucher.apps.VoucherConfig",
    "oscar.apps.wishlists.apps.WishlistsConfig",
    "oscar.apps.dashboard.apps.DashboardConfig",
    "oscar.apps.dashboard.reports.apps.ReportsDashboardConfig",
    "oscar.apps.dashboard.users.apps.UsersDashboardConfig",
    "oscar.apps.dashboard.orders.apps.OrdersDashboardConfig",
    "oscar.apps.dashboard.catalogue.apps.CatalogueDashboardConfig",
    "oscar.apps.dashboard.offers.apps.OffersDashboardConfig",
    "oscar.apps.dashboard.partners.apps.PartnersDashboardConfig",
    "oscar.apps.dashboard.pages.apps.PagesDashboardConfig",
    "oscar.apps.dashboard.ranges.apps.RangesDashboardConfig",
    "oscar.apps.dashboard.reviews.apps.ReviewsDashboardConfig",
    "oscar.apps.dashboard.vouchers.apps.VouchersDashboardConfig",
    "oscar.apps.dashboard.communications.apps.CommunicationsDashboardConfig",
    "oscar.apps.dashboard.shipping.apps.ShippingDashboardConfig",
    "widget_tweaks",
    "haystack",
    "treebeard",
    "django_tables2",
]
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.flatpages",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.sites",
    "concurrency",
    "django_fsm",
    "friendship",
    "hitcount",
    "mptt",
    "ordered_model",
    "post_office",
    "reversion",
    "sequences",
    "solo",
    "star_ratings",
    "taggit",
    "waffle",
    *OSCAR_APPS,
    "found",
]
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates"}]
MIDDLEWARE = ["django.contrib.sessions.middleware.SessionMiddleware"]
