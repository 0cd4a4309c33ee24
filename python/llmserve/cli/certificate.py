"""Checks the TLS certificate before a model is loaded."""

from __future__ import annotations

from llmserve.cli.errors import UsageError
from llmserve.server.settings import Settings


def check_certificate(settings: Settings) -> None:
    """Refuses a certificate that the server could not use; without one there is nothing to check.

    Raises:
        UsageError: A file cannot be read, or the certificate and the key do not fit.
    """
    if settings.ssl_certfile is None:
        return
    # Imported late: most servers speak plain HTTP.
    import ssl

    try:
        # A key with a password would be asked for on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            settings.ssl_certfile, settings.ssl_keyfile, password=""
        )
    except OSError as error:
        reason = error.strerror or str(error)
        files = " and ".join(str(path) for path in (settings.ssl_certfile, settings.ssl_keyfile) if path)
        raise UsageError(
            f"the TLS certificate in {files} cannot be used: {reason}",
            "both files are PEM, and the key has no password",
        ) from None
