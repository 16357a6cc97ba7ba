"""The server: it runs the experiment that the run config names."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from feddiv.flower import serve

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """The whole run."""
    serve(grid, context)
