"""The API page, in a browser."""

from tests.support.chromium import Chromium, Complaints, check_accessible
from tests.support.server import ServerProcess

# They are all made alike, and a hundred of them take axe ten seconds.
KEEP_FEW = """() => {
  document.querySelectorAll("nav li:nth-child(n + 3)").forEach((item) => item.remove());
  document.querySelectorAll("section").forEach((section, index) => index % 20 && section.remove());
}"""


def test_everybody_can_read_it(chromium: Chromium, server: ServerProcess) -> None:
    with chromium.context() as context:
        page = context.new_page()
        complaints = Complaints(page)
        page.goto(f"{server.url}/docs")
        page.evaluate(KEEP_FEW)
        check_accessible(page)
        complaints.check()
