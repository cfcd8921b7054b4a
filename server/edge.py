"""`Edge`: what every route and every socket finds in its app; and who is asking.

Owns no answer. `app.py` puts it there, `gate.py` says who is asking.

    from radixchat.server.edge import edge_of, principal_of, service_of
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from starlette.requests import HTTPConnection

from radixchat.server.auth import Authenticator, Principal
from radixchat.server.conversation_watch import ConversationWatch
from radixchat.server.departure import Departure
from radixchat.server.metrics import Metrics
from radixchat.server.rate import Rates
from radixchat.server.serve_settings import ServeSettings
from radixchat.server.tracing import ResponseSpans, find_opentelemetry

if TYPE_CHECKING:
    from radixchat.server.host import ChatHost
    from radixchat.server.service import ChatService

PRINCIPAL = "radixchat.principal"


class Edge:
    """The settings, the counts and, once the model is loaded, the host behind one app.

    telemetry: the SDK that makes spans, if it is installed. watch: who wants to hear of a
    conversation. num_answers: requests over HTTP whose answer is being made.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self.settings = settings
        self.telemetry = find_opentelemetry()
        self.rates = Rates(settings.limits)
        self.metrics = Metrics()
        self.departure = Departure()
        self.began = time.time()
        self.watch = ConversationWatch()
        self.num_answers = 0
        self._host: ChatHost | None = None
        self._auth: Authenticator | None = None

    def open(self, host: ChatHost, auth: Authenticator) -> None:
        """From now on requests are served; whoever counts and watches hears of the host."""
        assert self._host is None, "an app has one host"
        host.disconnect_grace_s = self.settings.disconnect_grace_s
        host.observers += [self.metrics, self.rates, self.watch]
        if self.telemetry is not None:
            host.observers.append(ResponseSpans(self.telemetry, host.model_name))
        self._host = host
        self._auth = auth

    @property
    def is_open(self) -> bool:
        """Whether there is a host: the model is loaded."""
        return self._host is not None

    @property
    def host(self) -> ChatHost:
        """Whoever answers; only once it is open, before that no request gets through."""
        assert self._host is not None, "the gate lets nobody in before"
        return self._host

    @property
    def auth(self) -> Authenticator:
        """Who turns keys into principals; only once it is open."""
        assert self._auth is not None, "the gate lets nobody in before"
        return self._auth


def edge_of(connection: HTTPConnection) -> Edge:
    """The edge of the app that a request or a WebSocket belongs to."""
    edge = connection.app.state.edge
    assert isinstance(edge, Edge)
    return edge


def principal_of(connection: HTTPConnection) -> Principal:
    """Who asks.

    A WebSocket that is to give its key in its first message has none before (`has_principal`).
    """
    principal = connection.scope[PRINCIPAL]
    assert isinstance(principal, Principal)
    return principal


def has_principal(connection: HTTPConnection) -> bool:
    """Whether it is known who asks."""
    return PRINCIPAL in connection.scope


def service_of(connection: HTTPConnection) -> ChatService:
    """The conversations of whoever asks."""
    return edge_of(connection).host.service(principal_of(connection).id)
