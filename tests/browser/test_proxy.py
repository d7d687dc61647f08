"""The proxy of the container's README, executed where nginx is installed."""

import gzip
import re
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import done
from tests.browser.serving import ROOT, Server, serve
from tests.waiting import until

pytestmark = pytest.mark.skipif(
    shutil.which("nginx", path="/usr/sbin:/usr/bin") is None, reason="nginx is not installed"
)
NAME = "dpviz.localhost"  # which a browser finds on this machine
# Where it may write, and no more than one process, as whoever runs the test.
AROUND = """daemon off; master_process off; pid {0}/nginx.pid; error_log {0}/error.log;
events {{}}
http {{ access_log off; client_body_temp_path {0}/body; proxy_temp_path {0}/proxy; fastcgi_temp_path {0}/fastcgi;
uwsgi_temp_path {0}/uwsgi; scgi_temp_path {0}/scgi;
{1}
}}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve("--server.allowedHosts", NAME) as server:
        yield server


@pytest.fixture
def proxy(server: Server, tmp_path: Path) -> Iterator[str]:
    """Its address, on a port that is not the usual one, without the certificate and the second replica."""
    (block,) = re.findall(r"```nginx\n(.*?)```", (ROOT / ".container" / "README.md").read_text(), re.DOTALL)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    block = re.sub(r" *(ssl_certificate|server dpviz-2).*\n", "", block)
    block = block.replace("443 ssl", f"127.0.0.1:{port}").replace("dpviz-1:8501", server.url.removeprefix("http://"))
    file = tmp_path / "nginx.conf"
    file.write_text(AROUND.format(tmp_path, block.replace("dpviz.example.org", NAME).replace(" Secure;", "")))
    child = subprocess.Popen(["/usr/sbin/nginx", "-e", str(tmp_path / "error.log"), "-c", str(file)])
    until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
    yield f"http://{NAME}:{port}"
    child.terminate()
    child.wait(timeout=30)


def test_a_page_works_through_the_proxy_on_any_port_and_scripts_are_packed(browser: Browser, proxy: str) -> None:
    page = browser.new_page()
    addresses: set[str] = set()
    page.on("request", lambda request: addresses.add(request.url))
    page.goto(f"{proxy}/accelerated?accel_replicates=2")
    done(page)
    expect(page.get_by_label("Repeats R, exact value")).to_have_value("2")
    page.close()
    scripts = [address for address in addresses if address.endswith(".js")]
    assert len(scripts) > 10
    packed = 0
    for address in scripts:
        asked = urllib.request.Request(
            address.replace(NAME, "127.0.0.1"), headers={"Accept-Encoding": "gzip", "Host": proxy.partition("//")[2]}
        )
        with urllib.request.urlopen(asked) as answer:
            sent = answer.read()
            packed += len(sent)
            assert answer.headers["Content-Encoding"] == "gzip" or len(sent) < 1000, address
            assert "plotly" not in address or len(sent) < 0.4 * len(gzip.decompress(sent))
    assert packed < 2.5e6, "bytes on the wire of a page that is opened for the first time"


def test_a_phone_hears_of_its_class_through_the_proxy_as_soon_as_it_is_asked(browser: Browser, proxy: str) -> None:
    """By the stream itself, which the proxy must not hold back: a phone that hears nothing asks once in a while."""
    projector = browser.new_page()
    projector.goto(f"{proxy}/learn?class=new")
    code = projector.locator(".dpviz-code").inner_text().strip()
    expect(projector.get_by_role("img", name=f"{proxy}/c/{code}")).to_be_visible()
    phone = browser.new_page()
    requests: list[str] = []
    phone.on("request", lambda request: requests.append(request.url.rpartition("/")[2]))
    phone.goto(f"{proxy}/c/{code}")
    expect(phone.get_by_role("heading", name="Look up")).to_be_visible()
    expect(projector.get_by_text("1 phone")).to_be_visible()
    projector.get_by_role("button", name="The odds game").click()
    expect(phone.get_by_role("heading", name="Look up")).to_be_visible()
    projector.get_by_role("button", name="Play", exact=True).click()
    expect(phone.get_by_role("button", name="Not in")).to_be_visible()
    assert requests.count("news") == 1 and requests.count("join") == 1, requests
    projector.close()
    phone.close()
