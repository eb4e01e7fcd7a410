"""The API of django-ninja."""

from ninja import NinjaAPI

from shop.models import Voucher

api = NinjaAPI()


@api.post("/use/{code}", url_name="use")
def use(request, code: str):
    """Check, then act."""
    if Voucher.objects.get(code=code).used:
        return api.create_response(request, None, status=400)
    Voucher.objects.filter(code=code).update(used=True)
    return {}
