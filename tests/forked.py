"""``python -I -S forked.py SOCKET MODULE ARGUMENTS``: stands in for ``python -m MODULE ARGUMENTS``, forked by `forks`.

The module runs in another process, which has the streams, the folder and the environment of this one.
"""

import json
import os
import socket
import sys

if __name__ == "__main__":
    number, module, *arguments = sys.argv[1:]
    connection, theirs = socket.socketpair()
    with socket.socket(fileno=int(number)) as control:
        socket.send_fds(control, [b"."], [theirs.fileno(), 0, 1, 2])
    theirs.close()
    request = json.dumps([module, arguments, os.getcwd(), dict(os.environ), False]).encode()
    connection.sendall(len(request).to_bytes(8, "big") + request)
    for stream in (0, 1, 2):
        os.close(stream)
    connection.recv(8)  # the number of the process
    status = int.from_bytes(connection.recv(8), "big", signed=True)
    os._exit(status if status >= 0 else 128 - status)
