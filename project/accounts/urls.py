"""The paths of accounts. The reset by e-mail needs EMAIL_URL."""

from django.conf import settings
from django.contrib.auth.views import LoginView, LogoutView, PasswordResetDoneView
from django.urls import path

from project.accounts import pages, passwords, reset
from project.accounts.login import limited

urlpatterns = [
    path("login", LoginView.as_view(template_name="accounts/login.html"), name="login"),
    path("logout", LogoutView.as_view(), name="logout"),
    path("account", pages.account, name="account"),
    path("account/tokens/<int:token>/revoke", pages.revoke, name="revoke_token"),
    path("account/password", limited(passwords.ChangePassword.as_view()), name="change_password"),
    path(
        "account/password/<uidb64>/<token>",
        limited(passwords.ChoosePassword.as_view()),
        name="choose_password",
    ),
]
if settings.EMAIL_URL:
    sent = PasswordResetDoneView.as_view(template_name="accounts/reset_sent.html")
    urlpatterns += [
        path("account/reset", reset.ResetPassword.as_view(), name="password_reset"),
        path("account/reset/sent", sent, name="password_reset_done"),
    ]
