"""One HTTP/2 connection, close to the frames: tests see events as the peer sent them."""
import socket
import ssl

import h2.config
import h2.connection
import h2.events


class Http2:
    """Over TLS with ALPN when `tls` is given, else with prior knowledge."""

    def __init__(self, host, port, key, tls=None, timeout=60):
        self.key = key
        self.authority = f"{host}:{port}"
        self.scheme = "https" if tls else "http"
        self.socket = socket.create_connection((host, port), timeout=timeout)
        if tls:
            tls.set_alpn_protocols(["h2"])
            self.socket = tls.wrap_socket(self.socket, server_hostname=host)
            assert self.socket.selected_alpn_protocol() == "h2"
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(
            client_side=True, header_encoding="utf-8", validate_outbound_headers=False))
        self.h2.initiate_connection()
        self.flush()
        self.events = []
        self.closed = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def next_event(self):
        """None when the server has closed."""
        while not self.events:
            if self.closed:
                return None
            try:
                data = self.socket.recv(65536)
            except (ConnectionError, ssl.SSLError):
                data = b""
            if not data:
                self.closed = True
                continue
            self.events += self.h2.receive_data(data)
            for event in self.events:
                if isinstance(event, h2.events.DataReceived):
                    self.h2.acknowledge_received_data(event.flow_controlled_length,
                                                      event.stream_id)
                elif isinstance(event, h2.events.ConnectionTerminated) and not event.error_code:
                    # To the library a GOAWAY ends everything; streams that are open go on.
                    self.h2.state_machine.state = h2.connection.ConnectionState.CLIENT_OPEN
            try:
                self.flush()
            except OSError:
                pass
        return self.events.pop(0)

    def wait_for(self, kind, stream=None):
        """The next event of this kind (and stream); the others are kept, in order."""
        passed = []
        try:
            while (event := self.next_event()) is not None:
                if isinstance(event, kind) and stream in (None, getattr(event, "stream_id", None)):
                    return event
                passed.append(event)
            raise AssertionError(f"the server closed before {kind.__name__}; it sent {passed}")
        finally:
            self.events[:0] = passed

    def request(self, method, path, body=None, headers=(), end=True):
        """Sends it and returns the stream."""
        stream = self.h2.get_next_available_stream_id()
        fields = [(":method", method), (":scheme", self.scheme), (":authority", self.authority),
                  (":path", path), *headers, ("authorization", f"Bearer {self.key}")]
        self.h2.send_headers(stream, fields, end_stream=end and body is None)
        if body is not None:
            self.h2.send_data(stream, body, end_stream=end)
        self.flush()
        return stream

    def send(self, stream, data, end=False):
        """Of a body, in frames, as far as the window allows."""
        while data:
            size = min(len(data), self.h2.max_outbound_frame_size,
                       self.h2.local_flow_control_window(stream))
            if size == 0:
                self.wait_for(h2.events.WindowUpdated)
                continue
            self.h2.send_data(stream, data[:size])
            data = data[size:]
        if end:
            self.h2.end_stream(stream)
        self.flush()

    def answer(self, stream):
        """(status, body) of a stream that ends."""
        status, body = None, b""
        passed = []
        while True:
            event = self.next_event()
            assert event is not None, f"the server closed in the middle; it sent {passed}"
            if getattr(event, "stream_id", None) != stream:
                passed.append(event)
                continue
            if isinstance(event, h2.events.ResponseReceived):
                status = int(dict(event.headers)[":status"])
            elif isinstance(event, h2.events.DataReceived):
                body += event.data
            elif isinstance(event, h2.events.StreamEnded):
                self.events[:0] = passed
                return status, body
            elif isinstance(event, h2.events.StreamReset):
                self.events[:0] = passed
                return f"reset {event.error_code}", body
