"""Tests of the handlers: requests as bytes in, answers as bytes out."""
