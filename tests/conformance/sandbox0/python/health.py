"""Health and metadata, through the SDK's generated client."""
from sandbox0.apispec.api.health import get_healthz, get_metadata, get_readyz

from support import check, client, finish


@check("healthz")
def _():
    answer = get_healthz.sync(client=client.api)
    assert answer.success is True and answer.data.status == "ok"


@check("readyz")
def _():
    assert get_readyz.sync(client=client.api).success is True


@check("metadata")
def _():
    data = get_metadata.sync(client=client.api).data
    assert data.gateway_mode.value == "direct" and data.service == "atoll"


finish()
