"""A TCP proxy that a test can cut: connections die, and nobody gets through until it is mended."""

import socket
import threading

from lib import ports


class Proxy:
    """Listens on a port of its own and passes everything on to `target` (host, port)."""

    def __init__(self, target):
        self.port = ports.free_port()
        self._target = target
        self._guard = threading.Lock()
        self._pairs = []
        self._open = True
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Ends every connection and refuses new ones."""
        with self._guard:
            self._open = False
            for pair in self._pairs:
                _close(pair)
            self._pairs.clear()

    def mend(self):
        with self._guard:
            self._open = True

    def close(self):
        self.cut()
        self._listener.close()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                with self._guard:
                    if not self._open:
                        raise OSError("cut")
                    far = socket.create_connection(self._target)
                    self._pairs.append((near, far))
            except OSError:
                near.close()
                continue
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pump(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        _close((source, sink))


def _close(sockets):
    for one in sockets:
        try:
            one.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        one.close()
