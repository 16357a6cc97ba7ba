"""A site's folder with a list of doubtful labels and images, as an audit leaves it."""

import json

import numpy as np
from PIL import Image

from feddiv.audits.folder import write_audit
from feddiv.audits.label_audit import LabelAudit
from feddiv.methods.contract import Assessment

NAMES = ("cat/one.png", "dog/two photos.png", "cat/=3.png", "dog/<b>.png")
CLASSES = ("cat", "dog", "sea/lion")


def write_site(folder, names=NAMES, classes=CLASSES):
    """Four labels, of which the first two look wrong; their images lie in `photos`."""
    photos = folder / "photos"
    for number, name in enumerate(names):
        (photos / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((6, 5, 3), number * 50, np.uint8)).save(photos / name)
    audit = LabelAudit(
        site="north",
        classes=classes,
        given=np.array([0, 1, 0, 1]),
        opinion=Assessment(
            np.array([2, 0, 0, 1]),
            np.array([0.05, 0.1, 0.9, 0.95]),
            confidence=np.array([0.99, 0.7, 0.8, 0.9]),
        ),
        name=names.__getitem__,
        data=photos,
    )
    write_audit(folder / "site", audit, page=False)
    assert json.loads((folder / "site" / "audit.json").read_text())["classes"] == list(classes)
    return folder / "site"
