"""A broker of a ZMQ event plane, which a test can have lose what comes in."""

import threading

import zmq

from lib import ports


class Broker:
    """Publishers connect to `xsub`, subscribers to `xpub`."""

    def __init__(self):
        self.xsub, self.xpub = (f"tcp://127.0.0.1:{ports.free_port()}" for _ in range(2))
        self.keys = set()  # of the messages that went through
        self._losing = threading.Event()
        self._context = zmq.Context()
        self._in, self._out = self._context.socket(zmq.XSUB), self._context.socket(zmq.XPUB)
        self._in.bind(self.xsub)
        self._out.bind(self.xpub)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def lose(self):
        """From now on messages go no further."""
        self._losing.set()

    def pass_on(self):
        self._losing.clear()

    def close(self):
        self._context.destroy(linger=0)
        self._thread.join(10)

    def _run(self):
        poller = zmq.Poller()
        poller.register(self._in, zmq.POLLIN)
        poller.register(self._out, zmq.POLLIN)
        try:
            while True:
                for socket, _ in poller.poll():
                    message = socket.recv_multipart()
                    if socket is self._out:
                        self._in.send_multipart(message)
                    elif not self._losing.is_set():
                        self.keys.add(message[0].decode())
                        self._out.send_multipart(message)
        except zmq.ZMQError:
            pass  # closed


def url(*brokers):
    """DYN_ZMQ_BROKER_URL for these."""
    lists = (";".join(getattr(broker, side) for broker in brokers) for side in ("xsub", "xpub"))
    return "xsub={} , xpub={}".format(*lists)
