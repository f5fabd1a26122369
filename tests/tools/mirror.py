"""Mirrors of our own for the tests of tools that download: no network is needed."""
import functools
import http.server
import os
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import download  # noqa: E402


class Quiet(http.server.SimpleHTTPRequestHandler):
    asked = 0

    def do_GET(self):
        Quiet.asked += 1
        super().do_GET()

    def log_message(self, *args):
        pass


class Stalls(Quiet):
    """Sends half of what it promised and waits until it is let go."""
    half_sent, let_go = threading.Event(), threading.Event()

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(2 * download.CHUNK))
        self.end_headers()
        self.wfile.write(bytes(download.CHUNK))
        self.half_sent.set()
        self.let_go.wait(60)


class Mirrors:
    """A TestCase that inherits from it needs the folders `source` and `out`, the tool's `main`, and the `variable` that names mirrors."""

    def serve(self, handler=Quiet):
        server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(handler, directory=str(self.source)))
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}/"

    def run_tool(self, *mirrors):
        saved = os.environ.get(self.variable)
        os.environ[self.variable] = " ".join(mirrors)
        self.addCleanup(lambda: os.environ.pop(self.variable, None) if saved is None
                        else os.environ.__setitem__(self.variable, saved))
        return self.main(["--out", str(self.out), "--timeout", "5"])

    def files(self):
        return {path.name: path.read_bytes() for path in self.out.iterdir()} if self.out.exists() else {}
