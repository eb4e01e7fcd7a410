"""A view of the REST framework, for a user that a test has forced."""

from django.urls import path
from rest_framework.response import Response
from rest_framework.views import APIView

from shop.models import Voucher


class Join(APIView):
    def post(self, request, code):
        """Check, then act, on the user's own row."""
        if request.user.first_name:
            return Response(status=400)
        request.user.first_name = Voucher.objects.get(code=code).code
        request.user.save(update_fields=["first_name"])
        return Response(status=201)


urlpatterns = [path("join/<code>/", Join.as_view(), name="join")]
