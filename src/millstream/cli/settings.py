"""The data directory, broker and app of a command."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import click

from millstream.app import App
from millstream.cli.loading import reporting_load_errors
from millstream.errors import DefinitionError
from millstream.foundation.loading import load_app
from millstream.foundation.paths import DEFAULT_DATA_DIR, app_names


@dataclass
class CommonOptions:
    """The common options; a missing one is taken from the bound app, then from the environment."""

    app: App | None = None
    given_data_dir: str | None = None
    given_broker: str | None = None
    debug: bool = False

    @property
    def data_dir(self) -> Path:
        """The data directory, absolute."""
        if self.given_data_dir is not None:
            return Path(self.given_data_dir).absolute()
        if self.app is not None:
            return self.app.data_dir
        return Path(os.environ.get("MILLSTREAM_DATA_DIR") or DEFAULT_DATA_DIR).absolute()

    @property
    def broker_url(self) -> str | None:
        """The broker's URL, or None for the embedded log of the data directory."""
        if self.given_broker is not None:
            return self.given_broker
        if self.app is not None:
            return self.app.broker_url
        return os.environ.get("MILLSTREAM_BROKER") or None

    def load(self, target: str | None) -> App:
        """Return the bound app or the one that ``target`` names, with the data directory and broker of the options."""
        if self.app is not None:
            app = self.app
        else:
            target = _check_target(target or "")
            with reporting_load_errors(target):
                app = load_app(target)
        if self.given_data_dir is not None:
            app.data_dir = self.data_dir
        if self.given_broker is not None:
            app.broker_url = self.given_broker
        return app

    def app_id(self, given: str | None) -> str:
        """Return the id of the given app, the bound app, or the only app that has run."""
        if given is not None:
            return given
        if self.app is not None:
            return self.app.id
        apps = app_names(self.data_dir)
        if not apps:
            raise DefinitionError(f"no app has run on {str(self.data_dir)!r}", hint="run one: millstream run FILE")
        if len(apps) > 1:
            raise DefinitionError(
                f"{len(apps)} apps have run on {str(self.data_dir)!r}",
                hint=f"{_how_to_choose(apps[0])}: {', '.join(apps)}",
            )
        return apps[0]


def _how_to_choose(app: str) -> str:
    """Return how an app is named in the current command."""
    context = click.get_current_context()
    if any("--app" in parameter.opts for parameter in context.command.params):
        return "choose one with --app"
    return f"name one, as in: {context.command_path} {app}; there are"


def _check_target(target: str) -> str:
    module = target.partition(":")[0]
    if not module.endswith((".py", ".sql")) and not all(part.isidentifier() for part in module.split(".")):
        raise DefinitionError(
            f"{target!r} is neither a Python file nor a module",
            hint="use FILE.py, FILE.py:NAME, FILE.sql, MODULE or MODULE:NAME",
        )
    return target


pass_settings = click.make_pass_decorator(CommonOptions, ensure=True)


def settings_of(ctx: click.Context) -> CommonOptions:
    """Return the settings that all commands of one invocation share."""
    return ctx.find_root().ensure_object(CommonOptions)
