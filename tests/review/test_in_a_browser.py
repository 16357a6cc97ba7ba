"""An expert at work, in a real Chromium: keys, views, bulk, undo, two tabs, many samples."""

import time

import pytest
from tests.review.processes import started
from tests.review.sites import CLASSES, audited, many, photos, served
from tests.review.visits import tab, visited

from feddiv.data.corrections import Decision, DecisionKind, append, now, read
from feddiv.review.serving import door_file

pytestmark = pytest.mark.slow
ANIMALS = ("ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay", "kiwi", "lynx")
COUNTS = "([start]) => document.getElementById('counts').textContent.startsWith(start)"
QUOTE = '"'
NASTY = "<script>alert(1)</script>"
# The list from its top to its end, as fast as somebody drags the bar; every step draws. The median
# of a step, in milliseconds.
SCROLLED = """async () => {
  const grid = document.getElementById("grid"), times = [];
  const frame = () => new Promise(requestAnimationFrame);
  for (let step = 1; step <= 60; step += 1) {
    const before = performance.now();
    grid.scrollTop = (grid.scrollHeight - grid.clientHeight) * step / 60;
    await frame();
    times.push(performance.now() - before);
    if (!document.querySelector(".card")) throw new Error("nothing drawn");
  }
  return times.sort((a, b) => a - b)[Math.floor(times.length / 2)];
}"""


def decided(folder):
    """Rows of the file: sample, kind, label."""
    return [
        (d.sample, d.decision.value, d.label) for d in read(folder / "corrections.csv").decisions
    ]


def kinds(folder):
    return [kind for _, kind, _ in decided(folder)]


@pytest.fixture
def zoo(tmp_path, browser):
    """Twelve classes, 36 images, the first six doubted for the next class, in the grid."""
    folder = photos(tmp_path, 36, ANIMALS)
    with served(folder) as page, visited(browser, page.address) as visit:
        visit.page.wait_for_selector(".card img")
        yield folder, visit


def test_every_key_that_decides(zoo):
    folder, visit = zoo
    visit.press("s", "y", "x", "n", "1", "0", "k", "l")
    visit.until_states(
        "wrong", "right", "can't tell", "skipped", "wrong", "wrong", "wrong", "wrong"
    )
    visit.press("/")
    visit.page.fill("#typed", "gn")
    visit.press("Enter")
    visit.press("t")
    visit.page.keyboard.type("e")
    visit.press("ArrowDown", "Enter")  # eel is the first that begins so, bee the next that has it
    visit.wait("() => document.querySelectorAll('.card.wrong').length === 7")
    visit.settled()
    assert decided(folder) == [
        ("ant/0.png", "correct", "bee"),
        ("bee/1.png", "confirm", "bee"),
        ("cat/2.png", "cannot_tell", ""),
        ("dog/3.png", "skip", ""),
        ("eel/4.png", "correct", "ant"),
        ("fox/5.png", "correct", "jay"),
        ("gnu/6.png", "correct", "kiwi"),
        ("hen/7.png", "correct", "lynx"),
        ("ibis/8.png", "correct", "gnu"),
        ("jay/9.png", "correct", "bee"),
    ]
    assert visit.page.text_content("#live") == "jay/9.png: corrected from jay to bee."
    assert visit.counts().startswith("Found 7 wrong of about 6 (")
    visit.press("u", "Control+z", "r", "Control+y", "Control+Shift+z", "u")
    visit.wait("() => document.querySelectorAll('.card.wrong').length === 6")
    visit.settled()
    assert kinds(folder)[10:] == ["undo", "undo", "redo", "redo", "undo"]


def test_moving_and_selecting_by_keys(zoo):
    folder, visit = zoo

    def active():
        return int(visit.page.get_attribute(".card.active", "aria-posinset")) - 1

    def chosen():
        return visit.page.eval_on_selector_all(
            ".card.chosen",
            "all => all.map(card => Number(card.dataset.place)).sort((a, b) => a - b)",
        )

    visit.press("ArrowRight", "ArrowRight", "ArrowLeft")
    assert active() == 1
    visit.press("ArrowDown")
    columns = active() - 1
    assert columns > 3
    visit.press("ArrowUp", "End")
    assert active() == 35
    visit.press("PageUp", "Home")
    assert active() == 0
    assert visit.page.get_attribute("#grid", "aria-activedescendant") == "card-0"
    visit.press("Space", "ArrowRight", "ArrowRight", "Space")
    assert chosen() == [0, 2]
    visit.press("Shift+ArrowRight", "Shift+ArrowRight")
    assert chosen() == [2, 3, 4]
    assert visit.page.text_content("#about") == "3 labels selected"
    visit.press("Escape")
    assert chosen() == []
    visit.page.keyboard.press("Control+a")
    assert visit.page.text_content("#about") == "36 labels selected"
    visit.press("Escape", "?")
    assert visit.page.is_visible("#keys")
    visit.press("Escape", "f")
    assert visit.page.evaluate("document.activeElement.id") == "by-state"
    visit.press("Escape", "Home", "Enter")
    assert visit.page.is_visible("#single")
    visit.press("g")
    assert visit.page.is_visible("#grid")
    assert not (folder / "corrections.csv").exists()


def test_many_at_once_by_mouse_and_undone_as_one(zoo):
    folder, visit = zoo
    cards = visit.page.locator(".card")
    cards.nth(1).click()
    cards.nth(4).click(modifiers=["Shift"])
    visit.page.click("#suggested")
    visit.until_states("", "wrong", "wrong", "wrong", "wrong", "")
    visit.settled()
    assert [row[2] for row in decided(folder)] == ["cat", "dog", "eel", "fox"]
    visit.page.reload()
    visit.page.wait_for_selector(".card.wrong")
    visit.until_states("", "wrong", "wrong", "wrong", "wrong", "")
    assert visit.page.get_attribute("#undo", "title") == "Undo (U): 4 labels"
    visit.page.click("#undo")
    visit.until_states("", "", "", "", "", "")
    visit.page.reload()
    visit.page.click("#redo")
    visit.until_states("", "wrong", "wrong", "wrong", "wrong", "")
    visit.page.click("#select-all")
    visit.page.click("#classes button[data-label='0']")
    visit.wait(COUNTS, "Found 33 wrong")
    visit.settled()
    assert len(decided(folder)) == 4 + 4 + 4 + 36


def test_one_at_a_time(zoo):
    folder, visit = zoo
    visit.press("g")
    visit.page.wait_for_selector("#look img")
    visit.wait("() => document.querySelector('#look img').naturalWidth === 80")
    assert "cat/2.png" not in visit.page.text_content("#facts")
    visit.press("s", "n", "y")
    visit.wait("() => document.querySelector('#facts h2').textContent === 'dog/3.png'")
    assert "99" not in visit.page.text_content("#facts .where span")
    assert visit.page.text_content("#facts .where span") == "4 of 36"
    visit.press("ArrowLeft")
    visit.wait("() => document.querySelector('.decided').textContent === 'Confirmed'")
    visit.settled()
    assert kinds(folder) == ["correct", "skip", "confirm"]
    look = "() => getComputedStyle(document.querySelector('#look img')).transform"
    visit.wait(f"() => ({look})() !== 'none'")  # it is placed when it has been loaded
    at_first = visit.page.evaluate(look)
    seen = {at_first}
    for key in ("+", ".", "Shift+ArrowLeft", "-", "-", ","):
        visit.press(key)
        seen.add(visit.page.evaluate(look))
    assert len(seen) >= 6
    visit.press("z")
    assert visit.page.evaluate(look) == at_first
    visit.press("u")
    visit.wait("() => document.querySelector('.decided').textContent === 'Not decided yet'")
    visit.page.reload()  # comes back to where it was
    visit.wait("() => document.querySelector('#facts h2')?.textContent === 'cat/2.png'")
    visit.press("Escape")
    visit.until_states("wrong", "skipped", "")


def test_filters(zoo):
    folder, visit = zoo

    def shown(count):
        said = "wanted => document.getElementById('shown').textContent === wanted[0]"
        visit.wait(said, f"{count} shown")

    visit.press("s", "y", "x")
    shown(36)
    select = visit.page.select_option
    counts = {"undecided": 33, "decided": 3, "wrong": 1, "unsure": 1, "conflict": 0}
    for state, count in counts.items():
        select("#by-state", state)
        shown(count)
    assert visit.page.is_visible("#nothing")
    select("#by-state", "all")
    select("#by-given", label="dog")
    shown(3)
    select("#by-given", label="any class")
    select("#by-pair", label="dog → eel (1)")
    shown(1)
    visit.page.click("#clear")
    shown(36)
    visit.page.fill("#by-high", "0.5")
    shown(6)
    select("#by-state", "undecided")
    shown(3)
    visit.page.click("#grid", position={"x": 5, "y": 5})
    visit.press("s")  # what is decided leaves the list, and the next one is in its place
    shown(2)
    visit.settled()
    assert decided(folder)[-1][0] == "dog/3.png"
    rows = len(decided(folder))
    other = Decision("ant/0.png", "ant", DecisionKind.CONFIRM, "ant", "ben", now())
    append(folder / "corrections.csv", [other])
    visit.page.click("#clear")
    shown(36)
    visit.wait("() => document.getElementById('counts').textContent.includes('1 conflict')")
    select("#by-state", "conflict")
    shown(1)
    visit.press("Enter")
    visit.wait("() => document.getElementById('facts').textContent.includes('ben')")
    assert "Reviewers disagree" in visit.page.text_content("#facts")
    visit.press("3")
    shown(0)
    visit.settled()
    assert decided(folder)[-1] == ("ant/0.png", "settle", "cat")
    assert rows == 4


def test_who_has_filtered_goes_on_with_the_keys(zoo):
    """Else Enter would clear the filter again, and S be typed into the choice."""
    folder, visit = zoo
    focus = "document.activeElement.id"
    select = "document.getElementById('by-state')"
    visit.page.select_option("#by-state", "undecided")
    visit.page.focus("#clear")
    # Quicker than any frame is drawn, as on a busy machine: the button never loses the focus by
    # itself.
    visit.page.evaluate(
        "() => { document.activeElement.click(); const state = "
        f"{select}; state.value = 'undecided'; "
        "state.dispatchEvent(new Event('input', { bubbles: true })); }"
    )
    assert visit.page.evaluate(focus) == "grid"
    visit.press("Enter")
    visit.page.wait_for_selector("#facts h2")
    assert visit.page.input_value("#by-state") == "undecided"
    visit.press("g", "f", "ArrowDown")  # by keys: every step counts, Enter leaves
    assert visit.page.input_value("#by-state") == "decided"
    assert visit.page.evaluate(focus) == "by-state"
    visit.press("ArrowUp", "Enter")
    assert visit.page.evaluate(focus) == "grid"
    visit.page.click("#by-state")  # by mouse: the choice is made with one click
    visit.press("ArrowUp", "Enter")
    visit.wait("() => document.getElementById('by-state').value === 'all'")
    visit.wait(f"() => {focus} === 'grid'")
    visit.press("s")
    visit.until_states("wrong", "")
    visit.settled()
    assert kinds(folder) == ["correct"]


def test_two_tabs_show_the_same(tmp_path, browser):
    folder = photos(tmp_path)
    with served(folder) as page, visited(browser, page.address) as one:
        two = tab(one.page.context, page.address)
        elsewhere = browser.new_context()
        three = tab(elsewhere, page.address)
        one.press("s", "s")
        for other in (two, three):
            other.until_states("wrong", "wrong", "")
        two.page.click(".card[aria-posinset='3']")
        two.press("y")
        two.settled()
        one.page.click(".card[aria-posinset='3']")
        one.press("x")  # both decide about the third: the later one counts, neither is lost
        for each in (one, two, three):
            each.wait("() => !document.querySelector('.card.active.chosen')")
        one.until_states("wrong", "wrong", "can't tell")
        two.until_states("wrong", "wrong", "can't tell")
        two.press("u")
        three.until_states("wrong", "wrong", "right")
        assert two.errors == three.errors == []
        elsewhere.close()
    assert kinds(folder) == ["correct", "correct", "confirm", "cannot_tell", "undo"]


ACTIVE = "([place]) => document.querySelector('.card.active')?.dataset.place === place"


def test_opened_anew_it_begins_with_what_is_not_decided(tmp_path, browser):
    """The first key decides about something new, in either view, and replaces nothing."""
    folder = photos(tmp_path)
    with served(folder) as page:
        with visited(browser, page.address) as visit:
            visit.press("s", "n", "s")
            visit.until_states("wrong", "skipped", "wrong", "")
            visit.settled()
        with visited(browser, page.address) as visit:
            visit.wait(ACTIVE, "3")
            visit.press("y")
            visit.until_states("wrong", "skipped", "wrong", "right", "")
            visit.settled()
        with visited(browser, page.address) as visit:
            visit.press("g")
            visit.wait("() => document.querySelector('#facts h2')?.textContent === 'dog/4.png'")
            visit.press("y")
            visit.settled()
            visit.press("Escape")
            visit.page.click(".card[aria-posinset='6']")
            visit.page.click(".card[aria-posinset='12']", modifiers=["Shift"])
            visit.press("y")
            visit.wait("() => document.querySelectorAll('.card.right').length === 9")
            visit.settled()
        with visited(browser, page.address) as visit:
            visit.wait(ACTIVE, "1")  # what was skipped is all that is left
    assert [row[0] for row in decided(folder)[:5]] == [
        *("cat/0.png", "dog/1.png", "eel/2.png", "cat/3.png", "dog/4.png")
    ]
    assert len({row[0] for row in decided(folder)}) == len(decided(folder)) == 12


def test_one_of_several_sites_is_chosen(tmp_path, browser):
    for name, wrong in (("north", 1), ("south", 3)):
        audited(tmp_path / name, [f"{name}{row}" for row in range(6)], wrong=wrong)
    with served(tmp_path) as page, visited(browser, page.address) as visit:
        visit.page.wait_for_selector(".card")
        assert visit.page.input_value("#site") == "1"  # the one with the most wrong labels
        visit.press("s", "s")
        visit.until_states("wrong", "wrong", "")
        visit.page.select_option("#site", "0")
        visit.until_states("", "", "")
        visit.page.click("#grid")
        visit.press("y")
        visit.settled()
        visit.page.reload()
        visit.until_states("right", "", "")
        assert visit.page.input_value("#site") == "0"
        assert "The sample itself is not here" not in visit.page.text_content("#banner")
        assert "--data" in visit.page.text_content("#banner")
    assert kinds(tmp_path / "north") == ["confirm"]
    assert kinds(tmp_path / "south") == ["correct", "correct"]


def test_a_key_while_a_site_is_opened_decides_nothing(tmp_path, browser):
    """What is shown is still the one site, what is chosen the other: the same numbers, other
    samples."""
    photos(tmp_path, 6)
    names = [f"{CLASSES[row % 3]}/{row}.png" for row in range(6)]
    sites = [tmp_path / "sites" / name for name in ("north", "south")]
    for site in sites:
        audited(site, names, data=tmp_path / "data")
    with served(tmp_path / "sites") as page, visited(browser, page.address) as visit:
        visit.press("Enter")
        visit.page.wait_for_selector("#look img")
        held = []
        visit.page.route("**/api/1/list", lambda route: held.append(route))
        visit.page.select_option("#site", "1")
        while not held:
            visit.page.wait_for_timeout(5)
        visit.press("s", "y", "u")
        assert "api/0/" in visit.page.get_attribute("#look img", "src")
        held[0].continue_()
        visit.wait("() => document.querySelector('#look img').src.includes('/api/1/')")
        assert not any((site / "corrections.csv").exists() for site in sites)
        visit.press("s")
        visit.settled()
    assert [(site / "corrections.csv").exists() for site in sites] == [False, True]


def test_the_browser_is_led_by_a_file(tmp_path, browser):
    """The command hands a file to the browser: its arguments are seen by others, a token is not."""
    with served(photos(tmp_path)) as page:
        door = door_file(tmp_path, page.address)
        assert page.guard.token not in door
        assert (tmp_path / "review.html").stat().st_mode & 0o077 == 0
        context = browser.new_context()
        tab(context, door).page.wait_for_selector(".card img")
        context.close()


def test_the_server_is_killed_in_the_middle(tmp_path, browser):
    folder = photos(tmp_path)
    with started(folder, "--reviewer", "anna") as server:
        context = browser.new_context()
        visit = tab(context, server.address)
        visit.press("s", "y")
        visit.until_states("wrong", "right")
        visit.settled()
        server.kill()
        visit.press("x")
        visit.page.wait_for_selector("#banner.bad")
        visit.until_states("wrong", "right", "")  # not decided: it is not on the disk
        context.close()
    assert kinds(folder) == ["correct", "confirm"]
    with started(folder, "--reviewer", "anna") as server:
        with visited(browser, server.address) as visit:
            visit.until_states("wrong", "right", "")
            visit.press("u")
            visit.until_states("wrong", "", "")
        assert server.interrupt() == 0  # without a page that would miss it
    assert kinds(folder) == ["correct", "confirm", "undo"]


def test_the_folder_is_moved_in_the_middle(tmp_path, browser):
    folder = photos(tmp_path)
    moved = tmp_path / "elsewhere"
    context = browser.new_context()
    with served(folder) as page:
        visit = tab(context, page.address)
        visit.press("s", "y")
        visit.settled()
        folder.rename(moved)
        visit.press("x")
        visit.page.wait_for_selector("#banner.bad")
        said = visit.page.text_content("#banner")
        assert said.startswith(
            f"{folder}: is not there any more, and nothing is saved; put it back"
        )
        visit.until_states("wrong", "right", "")  # what was decided is still to be seen
        assert not folder.exists()  # nothing is begun anew in its old place
        moved.rename(folder)
        visit.press("Escape")
        visit.page.wait_for_selector("#banner", state="hidden")
        visit.press("x")
        visit.until_states("wrong", "right", "can't tell")
        visit.settled()
        (folder / "corrections.csv").rename(moved)  # the file alone
        visit.press("u")
        visit.page.wait_for_selector("#banner.bad")
        assert "corrections.csv: is not there any more" in visit.page.text_content("#banner")
        moved.rename(folder / "corrections.csv")
        context.close()
    assert kinds(folder) == ["correct", "confirm", "cannot_tell"]


def test_twenty_thousand_samples_load_as_they_are_seen(tmp_path, browser):
    folder = many(tmp_path)
    with served(folder) as page, visited(browser, page.address) as visit:
        visit.page.wait_for_selector(".card img")
        visit.wait(
            "() => [...document.querySelectorAll('.card img')].every(image => image.complete)"
        )
        in_sight = visit.page.locator(".card").count()
        assert in_sight < 80
        assert len(visit.images()) <= in_sight
        began = time.perf_counter()
        of_all = visit.page.evaluate(SCROLLED)
        visit.wait("() => document.querySelector('.card[aria-posinset=\"20000\"] img')?.complete")
        screens = 2 + (time.perf_counter() - began) / 0.09  # cards that pass faster load nothing
        assert visit.page.locator(".card").count() < 80
        assert len(visit.images()) < screens * 80
        visit.page.fill("#by-high", "0.0105")
        visit.wait("() => /^2.. shown$/.test(document.getElementById('shown').textContent)")
        of_few = visit.page.evaluate(SCROLLED)
        assert of_all < 3 * of_few + 20  # milliseconds; how many there are makes no difference
        visit.page.click("#clear")
        visit.press("End", "y")
        visit.wait(COUNTS, "Found 0 wrong")
        visit.press("Control+a", "s")
        visit.wait(COUNTS, "Found 5,000 wrong")
        visit.settled()
    assert len(decided(folder)) == 20_000


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_names_are_never_markup(tmp_path, browser, width, theme):
    classes = (NASTY, '"><img src=x onerror=alert(2)>', "plain")
    cells = [f'"{name.replace(QUOTE, QUOTE * 2)}"' for name in classes]
    rows = [f"{cells[row % 3]},{NASTY},no {row}" for row in range(9)]
    (tmp_path / "mails.csv").write_text("\n".join(["label,text,<b>id</b>", *rows]) + "\n")
    names = [str(row) for row in range(9)]
    folder = audited(tmp_path / "site", names, classes, data=tmp_path / "mails.csv", wrong=3)
    with (
        served(folder, reviewer="<i>anna</i>") as page,
        visited(browser, page.address, width=width, theme=theme) as visit,
    ):
        visit.page.wait_for_selector(".card .words")
        scripts = visit.page.evaluate("document.scripts.length")
        assert visit.page.text_content(".card[aria-posinset='1'] .words") == NASTY
        assert visit.page.text_content(".card[aria-posinset='1'] .given") == NASTY
        visit.press("s", "Enter")
        visit.wait("() => document.getElementById('facts').textContent.includes('<b>id</b>')")
        visit.press("?", "Escape", "/")
        assert visit.page.text_content("#found li") == f"{NASTY}1"
        visit.press("Enter", "g")
        assert visit.page.evaluate("document.scripts.length") == scripts
        wide = visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert wide  # nothing sticks out, also on a phone


@pytest.mark.parametrize("width", [1280, 390])
def test_many_classes_with_long_names_have_room(tmp_path, browser, width):
    kinds = ("naevus", "melanoma", "keratosis", "carcinoma")
    classes = [
        f"{where} {kind}" for where in ("Superficial", "Invasive", "Other") for kind in kinds
    ]
    folder = photos(tmp_path, 24, [*classes, "Unknown"])
    with (
        served(folder) as page,
        visited(browser, page.address, width=width) as visit,
    ):
        visit.press("Enter")
        visit.page.wait_for_selector("#facts .opinion")
        outside = """([what, frame]) => {
          const room = document.querySelector(frame).getBoundingClientRect();
          return [...document.querySelectorAll(what)].filter((each) => {
            const box = each.getBoundingClientRect();
            return box.right > room.right + 1 || box.bottom > room.bottom + 1;
          }).map((each) => each.textContent);
        }"""
        assert visit.page.evaluate(outside, ["#actions .answers button", "body"]) == []
        assert visit.page.evaluate(outside, ["#facts .opinion b", "#facts"]) == []
        if width > 1000:  # on a phone they are moved sideways
            assert visit.page.evaluate(outside, ["#classes button", "#classes"]) == []


def test_a_screen_reader_finds_its_way(zoo):
    _, visit = zoo
    page = visit.page
    assert page.get_by_role("listbox", name="Labels, the most doubtful first").count() == 1
    page.get_by_role("option", name="ant/0.png given ant, suggested bee").wait_for()
    for name in ("Undo", "Redo", "Keys", "Light or dark", "Grid", "Single"):
        assert page.get_by_role("button", name=name, exact=True).count() == 1
    assert page.get_by_role("progressbar").get_attribute("aria-valuemax") == "6"
    unnamed = page.evaluate(
        "[...document.querySelectorAll('button, input, select')].filter(each => "
        "!each.textContent.trim() && !each.getAttribute('aria-label') && !each.labels?.length && "
        "each.id !== 'typed').length"
    )
    assert unnamed == 0
    visit.press("Tab")
    ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert ring != "none"
