"""Trained models on disk: safetensors whose header says how to use them."""

import json
from collections.abc import Collection
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from feddiv.core.arrays import StateDict, Weights
from feddiv.core.errors import Diverged, UserError
from feddiv.core.files import Unreadable, load_tensors, save_tensors, tensors_hash
from feddiv.core.given_files import at_home
from feddiv.core.import_path import NotAllowed, named_in
from feddiv.data import Augment, Samples, Transform
from feddiv.data.transform import AsTheyAre
from feddiv.encoders.contract import Encoder
from feddiv.encoders.registry import is_onnx_file, make_encoder
from feddiv.learning.predict import CHUNK, predict
from feddiv.learning.train import TrainOptions
from feddiv.methods.contract import Assessment, Budget, Client, Message, Method
from feddiv.methods.registry import method_class
from feddiv.nets.build import build_net, check_shapes
from feddiv.runs.model_card import ModelCard
from feddiv.runs.predict_samples import Inputs, as_array
from feddiv.runs.predict_texts import given_texts

NOT_FINITE: Final = "the model's outputs are not finite: its file is damaged, or training diverged"


def save_weights(path: Path, weights: Weights, card: ModelCard) -> None:
    """Write atomically; tensors are named `model/entry`."""
    save_tensors(path, flat(weights), {"feddiv": json.dumps(asdict(card))})


def model_hash(weights: Weights) -> str:
    """SHA-256 of a model: two runs with the same hash have the same bits."""
    return tensors_hash(flat(weights))


def flat(weights: Weights) -> StateDict:
    """Tensors by the names they have in files: `model/entry`."""
    return {
        f"{model}/{key}": value for model, state in weights.items() for key, value in state.items()
    }


def by_model(tensors: StateDict) -> dict[str, StateDict]:
    """The tensors of a file again as models."""
    weights: dict[str, StateDict] = {}
    for key, tensor in tensors.items():
        model, _, entry = key.partition("/")
        weights.setdefault(model, {})[entry] = tensor
    return weights


class TrainedModel:
    """A trained model, ready to predict.

    Give raw samples: a PIL image, the path of an image, or a list of them, which are resized and
    converted as for training; or arrays as the data source has them, uint8 images [N, H, W, C] or
    float feature vectors [N, D]; or a data frame with the columns of the table that it was trained
    on. Normalisation is part of the model, and so is the encoder of one that was trained on an
    encoder's features: it takes images, or texts (a text, a list of them, paths of .txt files), or
    vectors that the encoder has made. Where the clients brought what their net eats, give that:
    float [N, ...]. One sample gives a result of length 1.
    """

    def __init__(
        self, card: ModelCard, nets: dict[str, nn.Module], method: Method[Any, Any]
    ) -> None:
        self.card, self.classes, self.nets = card, card.classes, nets
        self._transform = (
            AsTheyAre() if card.as_they_are else Transform(card.mean, card.std, Augment())
        )
        self._method = method
        self._encoder: Encoder | None = None

    def encoded_by(self, encoder: Encoder) -> None:
        """Images, or texts, go through this encoder from now on."""
        kind = "texts" if self.card.takes_texts else "images"
        if encoder.kind != kind:
            raise UserError(
                f"data.encoder={encoder.choice.name} encodes {encoder.kind}, and the model takes "
                f"{kind}"
            )
        if (encoder.width,) != self.card.input_shape:
            raise UserError(
                f"data.encoder={encoder.choice.name}: gives {encoder.width} features, and the "
                f"model takes {self.card.input_shape[0]}"
            )
        self._encoder = encoder

    @torch.no_grad()
    def predict_proba(self, inputs: Inputs) -> npt.NDArray[np.float64]:
        """Class probabilities [N, C]."""
        chunks = (self._features(chunk) for chunk in torch.split(self._samples(inputs), CHUNK))
        outputs = [
            _finite(self._method.predict(self.nets, self._transform.plain(chunk)))
            .double()
            .softmax(dim=1)
            for chunk in chunks
        ]
        return torch.cat(outputs).numpy() if outputs else np.zeros((0, len(self.classes)))

    def assess(self, samples: Samples) -> Assessment:
        """What the run's method would say of the labels of samples that were not in it."""
        weights = {name: net.state_dict() for name, net in self.nets.items()}
        message = Message("assess", weights, self.card.payload())
        client = Client(
            0, samples.none, len(self.classes), lambda name, state: self.nets[name], samples
        )
        try:
            return self._method.assess_held_out(client, None, message)
        except Diverged:
            raise UserError(NOT_FINITE) from None

    def logits(self, samples: Samples) -> npt.NDArray[np.float64]:
        """Logits [N, C] of samples as a run has them: an encoder has seen them already."""
        outputs = predict(self.nets, samples, forward=self._method.predict)
        return _finite(outputs).double().cpu().numpy()

    def _samples(self, inputs: Inputs) -> torch.Tensor:
        """Images or vectors as they are given; texts as what the encoder makes of them."""
        if self.card.takes_texts and self._encoder is not None:
            texts = given_texts(inputs, self.card)
            if texts is not None:
                return self._encoder.vectors(texts)
        return torch.from_numpy(self._checked(as_array(inputs, self.card)))

    def _features(self, samples: torch.Tensor) -> torch.Tensor:
        """What the encoder makes of images; everything else as it is."""
        if self._encoder is None or samples.dim() != 4:
            return samples
        return self._encoder.vectors(samples)

    def predict(self, inputs: Inputs) -> npt.NDArray[np.int64]:
        """Class numbers [N]; `predict_labels` gives their names."""
        return np.asarray(self.predict_proba(inputs).argmax(axis=1))

    def predict_labels(self, inputs: Inputs) -> list[str]:
        """The names of the predicted classes, one for each sample."""
        return [self.classes[number] for number in self.predict(inputs)]

    def _checked(self, inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        wanted, dtype = self.card.sample_shape, "float32"
        vectors = self.card.encoder is not None and inputs.ndim == 2 and inputs.dtype.kind == "f"
        if vectors or not self.card.takes_images:
            wanted = self.card.input_shape
            ready = inputs.astype(np.float32) if inputs.dtype.kind == "f" else inputs
        else:
            dtype = "uint8"
            ready = inputs[..., None] if inputs.ndim == 3 and wanted[2] == 1 else inputs
        if ready.shape[1:] != wanted or ready.dtype != dtype:
            raise UserError(
                f"samples of shape {inputs.shape[1:]} and type {inputs.dtype}; "
                f"this model takes {wanted} of {dtype}"
            )
        if not np.isfinite(ready).all():
            raise UserError("samples hold a value that is not finite in float32")
        return np.ascontiguousarray(ready)


def _finite(outputs: torch.Tensor) -> torch.Tensor:
    """Refuse a model that says nothing: its first class would be the answer to everything."""
    if not outputs.isfinite().all():
        raise UserError(NOT_FINITE)
    return outputs


def load_model(
    path: str | Path, allow: Collection[str] = (), encoder: str | None = None
) -> TrainedModel:
    """The model of a run's folder (its last round) or of one safetensors file.

    `allow` are import paths, of a net, a method or an encoder, that its header may name. `encoder`
    says where the encoder of its features is now, for one that is a file.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "model.safetensors"
    if not file.is_file():
        raise UserError(f"{file}: there is no model; a finished run has model.safetensors")
    try:
        tensors, header = load_tensors(file)
    except Unreadable as error:
        raise UserError(f"{file}: {error}") from None
    if "feddiv" not in header:
        raise UserError(f"{file}: was not written by feddiv: its header does not describe a net")
    if not tensors:
        raise UserError(f"{file}: holds no net: the sites brought their own predictions")
    try:
        with named_in(file, allow):
            model = _built(json.loads(header["feddiv"]), tensors)
    except NotAllowed:
        raise
    except Exception as error:  # a header may say anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{file}: header and weights make no net: {reason}") from None
    _add_encoder(model, file, allow, encoder)
    return model


def _add_encoder(
    model: TrainedModel, file: Path, allow: Collection[str], place: str | None
) -> None:
    """The encoder that the header names, found to be the one that the model was trained with."""
    choice, shape = model.card.encoder, model.card.image_shape
    if choice is None:
        if place is not None:
            raise UserError(f"--encoder {place}: {file} was not trained on an encoder's features")
        return
    side = None if shape is None else max(shape[:2])
    if place is not None:  # the user's own word: what is there may be imported
        model.encoded_by(make_encoder(replace(choice, name=place), side))
        return
    if is_onnx_file(choice.name) and not at_home(choice.name).exists():
        raise UserError(
            f"data.encoder={choice.name}: there is no such file; put it back, or say where it is "
            "now: feddiv predict --encoder FILE.onnx, in Python load(..., encoder=...)"
        )
    with named_in(file, allow):
        model.encoded_by(make_encoder(choice, side))


def _built(fields: dict[str, Any], tensors: StateDict) -> TrainedModel:
    """The one place where code that a header names is imported: a net's and a method's."""
    card = ModelCard.of_header(fields)
    kind = method_class(card.method["name"])
    method = kind(kind.Options.model_validate(card.method), TrainOptions(), Budget(1, 1.0, 0))
    nets: dict[str, nn.Module] = {}
    options = card.model
    for model, state in sorted(by_model(tensors).items()):
        check_shapes(options, card.input_shape, len(card.classes), state)
        net = build_net(options, card.input_shape, len(card.classes))
        net.load_state_dict(state)
        nets[model] = net.eval()
    return TrainedModel(card, nets, method)
