"""A site's corrections as they were when a run came to the site.

What a site sends tells counts of its labels. Were a decision to count in the middle of a run, two
messages before and after it would tell the server which class one sample had and which it has now.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from feddiv.core.files import write_bytes
from feddiv.data.corrections.file import HEADER, read_in_turn, text_of
from feddiv.data.draw.corrected import correction_files, files_digest
from feddiv.flower.site_data import AppData, Held, OwnData, SiteData


def load_with_frozen(holdings: SiteData, folder: Path, load: Callable[[SiteData], Held]) -> Held:
    """The data under the decisions that `folder` keeps of this run; at first, those of the site.

    They are kept once they were found to be about the data: a site whose file is wrong can mend it
    and take part.
    """
    if not isinstance(holdings, OwnData | AppData):
        return load(holdings)
    # Not CORRECTIONS: a folder that somebody names is searched for files of that name. By place:
    # nodes of one simulation share a folder.
    place = "" if holdings.place is None else f"-{holdings.place}"
    kept = folder / f"decisions{place}.csv"
    if kept.is_file():
        return load(replace(holdings, corrections=kept))
    if holdings.corrections is None:
        return load(holdings)
    while True:
        files = correction_files([holdings.corrections], "corrections")
        before = files_digest(files)
        loaded = load(holdings)
        content = HEADER + text_of(read_in_turn(files).decisions).encode()
        if files_digest(files) == before:  # else somebody has just decided
            break
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(kept, content)
    return loaded
