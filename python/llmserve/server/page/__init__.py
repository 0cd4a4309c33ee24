"""The pages for browsers: chat and live plots at `/`, the API's documentation at `/docs`."""
