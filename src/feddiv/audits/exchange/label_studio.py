"""Label Studio: tasks with predictions and scores in JSON, and its export in JSON.

Tasks follow its "basic JSON format" (`data`, `predictions` with `model_version`, `score` and a
`result` of type `choices`); exports are read as JSON (`annotations`) and as JSON_MIN.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from xml.sax.saxutils import quoteattr

from feddiv.audits.exchange.items import (
    CANNOT_TELL,
    FoundDecision,
    Item,
    in_a_url,
    in_utc,
    picture,
    words,
)
from feddiv.audits.label_audit import LabelAudit
from feddiv.data.corrections import DecisionKind

CONTROL, OBJECT = "label", "sample"  # names of the tags that a result refers to
VERSION: Final = "feddiv"


def tasks(audit: LabelAudit, items: Sequence[Item], prefix: str | None) -> list[dict[str, Any]]:
    """One task for each sample, the worst first."""
    return [_task(audit, item, prefix) for item in items]


def _task(audit: LabelAudit, item: Item, prefix: str | None) -> dict[str, Any]:
    data: dict[str, Any] = {"sample": item.sample, "given_label": item.given}
    if item.quality is not None:
        data["label_quality"] = round(item.quality, 6)
    text = None if prefix is not None else words(audit, item)
    shown = None if prefix is not None or text is not None else picture(audit, item)
    if prefix is not None:
        data["image"] = prefix + item.sample
    elif shown is not None:
        data["image"] = in_a_url(*shown)
    else:  # what cannot be shown is named
        data["text"] = item.sample if text is None else text
    task: dict[str, Any] = {"data": data}
    if item.predicted is not None:
        result = {
            "id": "predicted",
            "from_name": CONTROL,
            "to_name": OBJECT,
            "type": "choices",
            "value": {"choices": [item.predicted]},
        }
        prediction: dict[str, Any] = {"model_version": VERSION, "result": [result]}
        if item.confidence is not None:
            prediction["score"] = round(item.confidence, 6)
        task["predictions"] = [prediction]
    return task


def labelling_config(classes: Sequence[str], *, images: bool) -> str:
    """The labelling interface of a project that takes these tasks."""
    shown = "Image" if images else "Text"
    choices = "\n".join(
        f"    <Choice value={quoteattr(each)}/>" for each in (*classes, CANNOT_TELL)
    )
    return (
        "<View>\n"
        f'  <{shown} name="{OBJECT}" value="${shown.lower()}"/>\n'
        '  <Header value="Given: $given_label"/>\n'
        f'  <Choices name="{CONTROL}" toName="{OBJECT}" choice="single" showInLine="true">\n'
        f"{choices}\n"
        "  </Choices>\n"
        "</View>\n"
    )


def read(content: bytes, classes: Sequence[str]) -> Iterator[FoundDecision]:
    """What annotators said; ValueError where it is no export of such tasks."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"is no JSON ({str(error)[:100]})") from None
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError("is no export of Label Studio (a list of tasks)")
    for number, task in enumerate(found):
        data = task.get("data", task)
        sample = data.get("sample") if isinstance(data, Mapping) else None
        if not isinstance(sample, str):
            raise ValueError(f"task {number}: its data have no sample: it was not exported by us")
        if "annotations" in task:
            annotations = task["annotations"]
            if not isinstance(annotations, list):
                raise ValueError(f"task {number}: annotations are no list")
            for annotation in annotations:
                yield from _annotated(sample, annotation, classes, number)
        elif CONTROL in task:  # JSON_MIN
            yield _found(sample, task[CONTROL], task, task.get("annotator"), classes, number)


def _annotated(
    sample: str, annotation: object, classes: Sequence[str], number: int
) -> Iterator[FoundDecision]:
    if not isinstance(annotation, Mapping):
        raise ValueError(f"task {number}: an annotation is no object")
    who = annotation.get("completed_by")
    if annotation.get("was_cancelled"):
        yield FoundDecision(sample, None, DecisionKind.SKIP, _name(who), _time(annotation))
        return
    results = annotation.get("result")
    for result in results if isinstance(results, list) else []:
        if not isinstance(result, Mapping) or result.get("from_name") != CONTROL:
            continue
        value = result.get("value")
        choices = value.get("choices") if isinstance(value, Mapping) else None
        yield _found(sample, choices, annotation, who, classes, number)


def _found(
    sample: str,
    said: object,
    about: Mapping[str, Any],
    who: object,
    classes: Sequence[str],
    number: int,
) -> FoundDecision:
    if isinstance(said, Mapping):
        said = said.get("choices")
    said = said if isinstance(said, list) else [said]
    if len(said) != 1 or not isinstance(said[0], str):
        raise ValueError(f"task {number}: has {len(said)} labels, not one")
    unsure = said[0] == CANNOT_TELL and CANNOT_TELL not in classes
    return FoundDecision(sample, None if unsure else said[0], None, _name(who), _time(about))


def _time(about: Mapping[str, Any]) -> str | None:
    return in_utc(about.get("updated_at") or about.get("created_at"))


def _name(who: object) -> str | None:
    if isinstance(who, Mapping):
        who = who.get("email") or who.get("id")
    if who is not None and not isinstance(who, str | int):
        raise ValueError(f"an annotator is a {type(who).__name__}, neither a name nor a number")
    return None if who is None else f"label-studio {who}"
