"""Nobody but the browser that has the address gets anything."""

import json

import pytest
from PIL import Image
from tests.review.sites import CLASSES, audited, photos, served

from feddiv.review.looks import Looks
from feddiv.review.opening import reviewable

PATHS = ("", "app.js", "page.css", "api/sites", "api/0/list", "api/0/image/0?side=192")
DECIDE = json.dumps({"places": [0], "choice": "confirm"}).encode()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return photos(tmp_path_factory.mktemp("guarded"))


@pytest.fixture(scope="module")
def page(site):
    with served(site) as open_page:
        yield open_page


def test_with_the_token_everything_comes(page):
    home, cookie = page.enter()
    for path in PATHS:
        status, headers, content = page.ask(home + path, Cookie=cookie)
        assert status == 200, path
        assert content
        assert headers["Cache-Control"] == "no-store"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert "Server" not in headers
    assert page.ask(home + PATHS[-1], Cookie=cookie)[1]["Content-Type"] == "image/jpeg"
    assert page.ask(home, Host=f"localhost:{page.port}", Cookie=cookie)[0] == 200


def test_without_the_token_nothing_does(page):
    home, cookie = page.enter()
    name, _, value = cookie.partition("=")
    answers = {page.ask("/")[2], page.ask("/?token=")[2], page.ask(f"/?token={value}")[2]}
    answers |= {page.ask(f"/?token={page.guard.token}x")[2], page.ask("/favicon.ico")[2]}
    for path in PATHS:
        for wrong in (None, f"{name}=", f"{name}={page.guard.token}", f"other={value}", "\xff;="):
            status, headers, content = page.ask(home + path, Cookie=wrong)
            assert status == 403
            assert "Set-Cookie" not in headers
            answers.add(content)
    assert len(answers) == 1  # and nothing tells one reason from another


def test_the_cookie_is_for_this_page_and_no_script(page):
    _, headers, content = page.ask(f"/?token={page.guard.token}")
    said = headers["Set-Cookie"].lower()
    assert "httponly" in said
    assert "samesite=strict" in said
    assert "path=/;" not in said  # ports share cookies; a random folder is not guessed
    assert page.guard.token not in said
    assert page.guard.token.encode() not in content


@pytest.mark.parametrize("host", [None, "evil.example", "127.0.0.1", "127.0.0.1:1", "localhost"])
def test_another_host_gets_nothing(page, host):
    home, cookie = page.enter()
    for path in (f"/?token={page.guard.token}", home, home + PATHS[-1]):
        assert page.ask(path, Host=host, Cookie=cookie)[0] in (400, 403)


@pytest.mark.parametrize("from_where", ["cross-site", "same-site"])
def test_pages_of_other_origins_get_nothing(page, from_where):
    home, cookie = page.enter()
    assert page.ask(home + PATHS[-1], Cookie=cookie, Sec_Fetch_Site=from_where)[0] == 403
    assert page.ask(home + PATHS[-1], Cookie=cookie, Sec_Fetch_Site="same-origin")[0] == 200
    for origin in ("null", "http://evil.example", "http://127.0.0.1:1"):
        assert page.ask(home + PATHS[-1], Cookie=cookie, Origin=origin)[0] == 403
    own = f"http://127.0.0.1:{page.port}"
    assert page.ask(home + PATHS[-1], Cookie=cookie, Origin=own)[0] == 200


def test_decisions_come_from_the_page_itself(page, site):
    home, cookie = page.enter()
    own = f"http://127.0.0.1:{page.port}"
    for origin in (
        None,
        "null",
        "http://evil.example",
        "http://127.0.0.1:1",
        f"{own}.evil.example",
    ):
        for verb in ("decide", "undo", "redo"):
            path = f"{home}api/0/{verb}"
            assert page.ask(path, "POST", DECIDE, Cookie=cookie, Origin=origin)[0] == 403
    assert not (site / "corrections.csv").exists()
    path = f"{home}api/0/decide"
    assert page.ask(path, "POST", DECIDE, Origin=own)[0] == 403  # without the cookie
    assert page.ask(path, "POST", DECIDE, Cookie=cookie, Origin=own)[0] == 200
    assert (site / "corrections.csv").exists()
    assert page.ask(path, "GET", Cookie=cookie)[0] == 405


@pytest.mark.parametrize(
    "path",
    [
        "../../../../../etc/passwd",
        "..%2f..%2f..%2fetc%2fpasswd",
        "%2e%2e/%2e%2e/etc/passwd",
        "/etc/passwd",
        "..\\..\\etc\\passwd",
        "api/0/image/..%2f..%2fcorrections.csv?side=192",
        "api/0/image/../../../labels.csv?side=192",
        "api/0/image/999?side=192",
        "api/0/image/-1?side=192",
        "api/0/image/0?side=100000",
        "api/0/samples?places=999",
        "api/0/samples?places=0,../x",
        "api/7/list",
        "labels.csv",
        "app.js%00.png",
    ],
)
def test_no_path_leads_out(page, path):
    home, cookie = page.enter()
    status, _, content = page.ask(home + path, Cookie=cookie)
    assert status in (400, 403, 404)
    assert b"root:" not in content
    assert b"given_label" not in content


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"places": [0]}',
        b'{"places": [], "choice": "confirm"}',
        b'{"places": [999], "choice": "confirm"}',
        b'{"places": ["0"], "choice": "confirm"}',
        b'{"places": [true], "choice": "confirm"}',
        b'{"places": [0], "choice": "label", "label": 3}',
        b'{"places": [0], "choice": "settle"}',
        b"[" * 100_000,
        *(
            b'{"places": [0], "choice": "confirm", "since": %s}' % since
            for since in (b"Infinity", b"1e400", b"NaN", b"1.5", b"-1", b'"two"', b"null", b"true")
        ),
    ],
)
def test_what_is_no_decision_is_refused(page, body):
    home, cookie = page.enter()
    own = f"http://127.0.0.1:{page.port}"
    before = page.ask(f"{home}api/0/news", Cookie=cookie)[2]
    status, _, content = page.ask(f"{home}api/0/decide", "POST", body, Cookie=cookie, Origin=own)
    assert status == 400
    assert json.loads(content)["problem"]
    assert page.ask(f"{home}api/0/news", Cookie=cookie)[2] == before


@pytest.mark.parametrize("since", ["inf", "1e400", "-1", "two", "9" * 5000, ""])
def test_news_are_since_a_number_of_rows(page, since):
    home, cookie = page.enter()
    status, _, content = page.ask(f"{home}api/0/news?since={since}", Cookie=cookie)
    assert status == 400
    assert json.loads(content)["problem"].startswith("since: ")
    assert page.ask(f"{home}api/0/news?since=7", Cookie=cookie)[0] == 200


def secrets_outside(tmp_path):
    secret = tmp_path / "elsewhere" / "secret.png"
    secret.parent.mkdir()
    Image.new("RGB", (40, 40), "red").save(secret)
    return secret


def shown(folder, **options) -> Looks:
    [site] = reviewable(folder, **options)
    return site.open().looks


def test_a_link_out_of_the_data_is_not_followed(tmp_path):
    secret = secrets_outside(tmp_path)
    site = photos(tmp_path)
    with served(site) as page:
        home, cookie = page.enter()
        path = f"{home}api/0/image/0?side=192"
        assert page.ask(path, Cookie=cookie)[1]["Content-Type"] == "image/jpeg"
        (tmp_path / "data" / "cat" / "0.png").unlink()
        (tmp_path / "data" / "cat" / "0.png").symlink_to(secret)
        _, headers, _ = page.ask(path, Cookie=cookie)
        assert headers["Content-Type"] == "image/svg+xml"  # says that it is missing
    assert shown(site).picture(1, 192) is not None


def test_a_table_cannot_name_files_outside_of_its_folder(tmp_path):
    secret = secrets_outside(tmp_path)
    data = tmp_path / "data"
    data.mkdir()
    Image.new("RGB", (40, 40)).save(data / "own.png")
    names = ["own.png", "../elsewhere/secret.png", str(secret), "own2.png"]
    Image.new("RGB", (40, 40)).save(data / "own2.png")
    lines = ["image,label", *(f"{name},{CLASSES[row % 2]}" for row, name in enumerate(names))]
    (data / "list.csv").write_text("\n".join(lines) + "\n")
    given = [0, 1, 0, 1]
    site = audited(tmp_path / "site", names, data=data / "list.csv", wrong=1, given=given)
    found = [shown(site).picture(place, 192) is not None for place in range(4)]
    assert found == [True, False, False, True]
    allowed = shown(site, images=[secret.parent])
    assert all(allowed.picture(place, 192) is not None for place in range(4))


def test_names_in_a_list_are_looked_up_and_never_opened(tmp_path):
    secret = secrets_outside(tmp_path)
    photos(tmp_path)
    names = ["cat/0.png", "../elsewhere/secret.png", str(secret)]
    site = audited(tmp_path / "other", names, data=tmp_path / "data", wrong=1)
    looks = shown(site)
    assert [looks.picture(place, 192) is not None for place in range(3)] == [True, False, False]
