"""The live lab's picture in a browser: what is drawn of what it is sent, and what a hand on it asks for.

The page has no kernel: a model of a few lines hands on what Python made, and keeps what it is asked.
"""

import base64
import json

import pytest

pytest.importorskip("proton")

from browser import chromium_page
from proton.utils import LinkDetached

import qflow as qf
from qflow.labs.scripts import STYLES, join_modules, read_styles
from qflow.live.live_lab import _Follower

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAGE = """<!doctype html><meta charset="utf-8"><style>{style}</style><body><div id="lab"></div>
<script type="module">
{script}
const values = {{ run: 0, pictures: [], refusal: "", progress: 0, is_followed: true, place: {{}},
  plays: false, offers: [], actions: [], handles: [], token: "", answer: {{}} }};
const heard = {{}};
window.asked = [];
const model = {{ get: (name) => values[name], set() {{}}, save_changes() {{}},
  send: (content) => window.asked.push(content),
  on: (name, act) => (heard[name] ??= []).push(act), off() {{}} }};
window.live = (content, packed) => {{
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  heard["msg:custom"].forEach((act) => act({{ live: content }}, [new DataView(bytes.buffer)]));
}};
render({{ model, el: document.getElementById("lab") }});
</script>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("live") / "live.html"
    # The widget's script ends with its export, which a page has no use for.
    script = join_modules("scene.js").replace("export default { render };", "")
    path.write_text(PAGE.format(style=read_styles(*STYLES), script=script), encoding="utf-8")
    with chromium_page() as lab:
        lab.page.goto(path.as_uri())
        yield lab


def show(page, follower, number):
    content, numbers = follower.look()
    packed = base64.b64encode(numbers).decode()
    content |= {"note": "", "number": number}
    page.evaluate("([content, packed]) => window.live(content, packed)", [content, packed])
    drawn = "number => window.asked.some((one) => one.ask === 'drawn' && one.number === number)"
    page.wait_for_function(drawn, arg=number)


def test_the_picture_follows_and_a_hand_on_it_is_heard(page):
    """What waits is drawn; FC-12: a line that is dragged asks for a queue."""
    lab, page = page, page.page
    with qf.serve("orders --flow-stop-count=3 --flow-resume-count=2") as broker:
        follower = _Follower(broker)
        show(page, follower, 1)
        assert page.inner_text(".qf-clients caption") == "No client is connected."
        shop = broker.client("shop")
        out = shop.sender("orders")
        for number in range(5):
            out.send(number)
        shop.round_trip()
        show(page, follower, 2)
        page.wait_for_function("() => document.querySelector('.qf-live .qf-stage').dataset.held === '2'")
        stage = page.locator(".qf-live .qf-stage")
        assert (stage.get_attribute("data-depth"), stage.get_attribute("data-flow")) == ("5", "ON")
        assert page.locator(".qf-live [data-name=shop]").get_attribute("data-held") == "2"
        assert "2 without an outcome" in page.inner_text(".qf-clients")
        assert "3 accepted" in page.inner_text(".qf-live-counts")
        page.wait_for_function("() => Number(document.querySelector('.qf-live').dataset.pictures) > 0")

        box = page.locator(".qf-live [data-setting=stop] .qf-pill").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x, y - 40, steps=4)
        page.mouse.up()
        asked = page.evaluate("() => window.asked.filter((one) => one.ask === 'set')")
        assert [(one["queue"], one["setting"]) for one in asked] == [("orders", "stop")]
        assert asked[0]["value"] > 3
        page.wait_for_timeout(600)
        page.locator(".qf-live .qf-tank").click()
        assert page.evaluate("() => window.asked.some((one) => one.ask === 'pause')")

        made = [broker.client(f"laptop-{number}") for number in range(29)]
        for client in made:
            client.sender("orders")
        with pytest.raises(LinkDetached):
            shop.sender("ordres")
            shop.round_trip()
        show(page, follower, 3)
        page.wait_for_function("() => document.querySelectorAll('.qf-crowd-senders .qf-chip').length === 30")
        page.wait_for_function(
            "() => document.querySelector('.qf-live-incidents').textContent.includes('not-found')"
        )
        assert page.inner_text(".qf-live-incidents").startswith("Links refused: shop: amqp:not-found: ")
        for client in (shop, *made):
            client.close()
    page.evaluate("() => window.live({ over: true, note: 'The server has stopped.' }, '')")
    assert page.inner_text(".qf-live-note") == "The server has stopped."
    assert lab.page_errors == []


def test_what_is_sent_is_plain():
    with qf.serve("orders") as broker:
        content, numbers = _Follower(broker).look()
    assert json.loads(json.dumps(content)) and isinstance(numbers, bytes)
