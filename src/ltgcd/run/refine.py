"""What ``ltgcd refine`` does: the next fit of a run, with all that people have said about it.

What was said becomes constraints (`ltgcd.review.refine`), and the fit is made in memory; only `Proposal.keep` changes
the run, and all of it in one step: the assignments say which fit counts. What was before is kept, so that it can be
brought back.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltgcd.common.errors import InputError
from ltgcd.common.files import LOCK, is_temporary, read_metadata
from ltgcd.common.outputs import check_output
from ltgcd.common.progress import step
from ltgcd.data.collection import UNLABELLED, positions
from ltgcd.data.sources import read_source
from ltgcd.discovery.memory import check_memory, discovering
from ltgcd.discovery.task import Hooks
from ltgcd.features.backbones import backbone_of
from ltgcd.features.cache import FeatureStore, opened
from ltgcd.features.views import CachedViews
from ltgcd.output.export.publish import private_folder, publish
from ltgcd.review.corrections import edits_of
from ltgcd.review.log import StaleError
from ltgcd.review.refine import Refined, refine
from ltgcd.review.state import Event, Review, replay, with_codes
from ltgcd.run.directory import Run
from ltgcd.run.labels import LABEL_CODES, codes_of_labels
from ltgcd.run.predict import RunModel, load_run_model
from ltgcd.run.relabel import standing
from ltgcd.run.report import draw_after, draw_again
from ltgcd.run.reviewed import BY_REFINE, RunReview
from ltgcd.run.same_content import check_same_items, features_of_run
from ltgcd.run.suggested import with_suggestions_of_run
from ltgcd.run.train import Notify, calibration_note, config_of_run, described_calibrations, described_estimate, silent
from ltgcd.training.methods import method_names

# ---------------------------------------------------------------- the next fit


class Proposal:
    """The next fit of a run, in memory: look at its difference, then keep it or let it go.

    Attributes
    ----------
    refined : Refined
        Labels, model and difference.
    seconds : float
        What the fit took.
    """

    def __init__(
        self,
        run: Run,
        held: RunReview,
        later: list[Event],
        model: RunModel,
        refined: Refined,
        x: NDArray[np.float32],
        seconds: float,
    ) -> None:
        self.run, self.refined, self.seconds = run, refined, seconds
        self._held, self._later, self._model, self._x = held, later, model, x

    def keep(self, notify: Notify = silent) -> dict[str, Any]:
        """Let it take the place of what was before, all of it or nothing, and draw the page."""
        run, found = self.run, self.refined.found
        if self._later:
            self._held.act(self._later, "labels of an update")
            self._later = []
        with run.lock("ltgcd refine"):
            held = RunReview.open(run)
            if held.version != self._held.version or not self._held.is_about(run.written_note()):
                raise StaleError(f"{run} was changed while it was fitted again; run 'ltgcd refine' once more.")
            fit = max([0, *run.fits()]) + 1
            names = dict(_class_pairs(self.refined.table))
            assert found.fitted is not None
            tensors, description = found.fitted.state()
            kept: dict[str, Any] = {"dim": self._x.shape[1]}
            kept["class_names"] = [names[int(code)] for code in self.refined.codes[: found.n_old]]
            kept |= {"codes": self.refined.codes.tolist(), "updates": run.updates}
            kept |= described_calibrations(found.calibrations)
            if self._model.features is not None:
                kept["features"] = self._model.features
            run.write_model(tensors, {**description, "note": kept}, fit)
            if found.estimate is not None:
                ids = self.refined.table.column("id").combine_chunks().filter(pa.array(~held.review.junk))
                run.write_estimate(described_estimate(found.estimate, ids, found.n_old), fit)
            if not run.files.features.is_file():  # a run of 'ltgcd train': now it can be drawn, and taken back
                run.write_features(held.review.base.column("id").combine_chunks(), self._x)
            # A base needs a state to come back to, also if nothing was said about it.
            if held.base not in run.states():
                held.keep_state()
            fresh = {"by": BY_REFINE, "fit": fit, "model_k": found.k, LABEL_CODES: _resolved(held)}
            fitted = with_suggestions_of_run(run, self.refined.table, self._x)
            table = held.next_base(fitted, {**fresh, **calibration_note(found)})
            step("report")
            notify("drawing the report")
            draw_after(run, lambda: draw_again(run, None, None, silent), notify)
        return self.summary(table)

    def summary(self, table: pa.Table | None = None) -> dict[str, Any]:
        """What the command prints: as ``discover`` does, and what changed."""
        table = self.refined.table if table is None else table
        status, estimate = table.column("status"), self.refined.found.estimate
        return {
            "k": len(_class_pairs(table)),
            "low": estimate.low if estimate else None,
            "high": estimate.high if estimate else None,
            "n_old": sum(read_metadata(table.schema)["classes"]["known"]),
            **{name: pc.sum(pc.equal(status, name)).as_py() or 0 for name in ("known", "novel", "unsure", "junk")},
            **self.refined.difference,
            "seconds": round(self.seconds, 3),
            "report": str(self.run.report),
            "run": str(self.run),
        }


def refine_run(
    run: Run,
    *,
    source: Path | None = None,
    weights: Path | None = None,
    max_memory: str | None = None,
    notify: Notify = silent,
) -> Proposal:
    """Fit a finished run again with everything that was said about it; nothing is written until it is kept.

    Parameters
    ----------
    run : Run
        A finished run of a trained method, reviewed or not.
    source : path, optional
        Embeddings that the run was made from, where it keeps none; what ``ltgcd embed --views`` wrote, for a run that
        trained the last stage of a backbone elsewhere.
    weights : path, optional
        Backbone weights, where they are not the usual ones.
    max_memory : str, optional
        Memory that may be taken ("12G"): what needs more is refused. By default that is only said, by what is free.
    notify : callable
        Told in a sentence what happens.
    """
    started = time.perf_counter()
    config = config_of_run(run)
    if config.experiment is None:
        names = ", ".join(method_names(lambda method: method.has_prototypes))
        raise InputError(f"{run} was only clustered, so there is no model to refine; 'refine' takes runs of {names}.")
    with run.lock("ltgcd refine"):
        run.settle_labels()
    held = RunReview.open(run)
    later = _later_labels(run, held)
    review = replay(held.review, later)
    if not later and not held.can_undo and run.written_note().get("by") == BY_REFINE:
        notify("nothing new was said since the last refine; a fit from where that ended moves only what is in doubt")
    model = load_run_model(run, weights)
    table = review.base
    work = discovering(config.fit_on, again=True)
    check_memory(len(table), model.dim, model.fitted.k, max_memory, notify, work=work, held=False)
    x = features_of_run(run, table, source)
    views, tail = None, None
    if config.regime == "last-stage":
        views, tail = _views(run, table, source, notify), backbone_of(model.features or {}, weights).tail
    hooks = Hooks(notify=notify)
    refined = refine(review, _source_codes(run, review), x, config, model.calibrations, hooks, views, tail)
    return Proposal(run, held, later, model, refined, x, time.perf_counter() - started)


def undo_refine(run: Run, notify: Notify = silent, *, base: int | None = None) -> dict[str, Any]:
    """Bring back what was before the last ``refine``, with everything that had been said until then.

    `base` is the one that the caller has seen: no other is taken back. What was said after the refine is about its
    categories and goes with it; ``dropped`` counts these actions.
    """
    with run.lock("ltgcd refine"):
        note = run.written_note()
        if base is not None and int(note.get("base", 0)) != base:
            raise StaleError(f"{run} was fitted again or updated meanwhile; look again.")
        by = note.get("by")
        if by != BY_REFINE:
            why = "items were added since by 'ltgcd update'" if by else "it was not refined"
            raise InputError(f"There is no refine of {run} to take back: {why}.")
        held = RunReview.open(run)
        dropped = held.can_undo
        held.last_base()
        notify("drawing the report")
        draw_after(run, lambda: draw_again(run, None, None, silent), notify)
    return {"dropped": dropped, **standing(run, RunReview.open(run))}


def refined_copy(
    run: Run,
    out: Path,
    *,
    source: Path | None = None,
    weights: Path | None = None,
    max_memory: str | None = None,
    notify: Notify = silent,
    show: Callable[[Proposal], None] = lambda _proposal: None,
) -> dict[str, Any]:
    """What ``ltgcd refine --out`` does: the next fit in a copy of the run, which is there when all of it is.

    `show` is given the proposal before it is kept; for the rest see `refine_run`.
    """
    check_output(out, None, (source,))
    with private_folder(out) as folder:
        copy = _copied(run, folder / run.folder.resolve().name)
        proposal = refine_run(copy, source=source, weights=weights, max_memory=max_memory, notify=notify)
        show(proposal)
        result = proposal.keep(notify)
        publish([(copy.folder, out)])
    return {**result, "report": str(Run(out).report), "run": str(out)}


def _copied(run: Run, folder: Path) -> Run:
    """A copy of a run in a new folder."""
    ignored = {LOCK, run.files.predictions.name}
    with run.lock("ltgcd refine"):
        shutil.copytree(
            run.folder,
            folder,
            ignore=lambda at, names: [n for n in names if n in ignored or is_temporary(Path(at) / n)],
        )
    return Run.open(folder)


# ---------------------------------------------------------------- parts


def _class_pairs(table: pa.Table) -> list[tuple[int, str]]:
    held = read_metadata(table.schema)["classes"]
    return list(zip(held["codes"], held["names"], strict=True))


def _source_codes(run: Run, review: Review) -> NDArray[np.int64]:
    """Codes of the labels that the collection came with (N,), -1 without."""
    labels, ids = run.labels(), review.base.column("id").combine_chunks()
    at = positions(ids, labels.ids, f"the labels of {run}", "restore them")
    note = read_metadata(review.base.schema)
    codes = codes_of_labels(labels.class_names, note, review.classes)
    return np.asarray(np.append(codes, UNLABELLED)[labels.y[at]], dtype=np.int64)


def _resolved(held: RunReview) -> list[int]:
    """Codes of the classes that labels name, after all merges: the next base knows nothing of these."""
    codes = read_metadata(held.review.base.schema)[LABEL_CODES]
    return [held.review.target(code) if code != UNLABELLED else code for code in codes]


def _later_labels(run: Run, held: RunReview) -> list[Event]:
    """Labels that came with an update, of items that the run had already, where nobody said otherwise: said now."""
    later = run.later_labels()
    if not len(later):
        return []
    at = pc.index_in(later.column("id").combine_chunks(), held.review.base.column("id").combine_chunks())
    rows = at.to_numpy(zero_copy_only=False)
    free = np.array([not np.isnan(row) and not held.review.given[int(row)] for row in rows.astype(np.float64)])
    return with_codes(held.review, edits_of(later.filter(pa.array(free)), held.review, any_name=True).events)


def _views(run: Run, table: pa.Table, source: Path | None, notify: Notify) -> CachedViews:
    """Cached views of all items, for a run that trained the last stage of its backbone on them."""
    store: FeatureStore | None = opened(source if source is not None else run.embedded)
    ids = table.column("id").combine_chunks()
    if source is not None and store is not None:
        note = check_same_items(run, ids, read_source(source, notify=silent).collection, source)
        if note is not None:
            notify(note)
    at = pc.index_in(ids, store.ids) if store is not None else None
    if store is None or at is None or at.null_count or not store.n_views:
        raise InputError(
            f"{run} trained the last stage of its backbone, and there are no cached views of all of its items to train "
            "it on again; give what 'ltgcd embed --views' wrote of them with --source."
        )
    return CachedViews(store, at.to_numpy().astype(np.int64))
