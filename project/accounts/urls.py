"""The paths of accounts: Django's, and the page of an account."""

from django.conf import settings
from django.urls import include, path, re_path
from django.views.generic import RedirectView, TemplateView

from project.accounts import pages
from project.accounts.reset import ChoosePassword, ResetPassword

without_mail = TemplateView.as_view(template_name="registration/no_reset.html")
reset = ResetPassword.as_view() if settings.EMAIL_URL else without_mail

urlpatterns = [
    re_path("^login/?$", RedirectView.as_view(pattern_name="login", query_string=True)),
    path("account", pages.show_account, name="account"),
    path("account/", RedirectView.as_view(pattern_name="account")),
    path("account/tokens/<int:token>/revoke", pages.revoke_token, name="revoke_token"),
    path("account/password_reset/", reset),
    path(
        "account/reset/<uidb64>/<token>/",
        ChoosePassword.as_view(),
        name="password_reset_confirm",
    ),
    path("account/", include("django.contrib.auth.urls")),
]
