"""Addresses on the page `/` of a site, as a browser reads them."""

from __future__ import annotations

ELSEWHERE = (
    "https://phish.example/pay",
    "//phish.example/pay",
    "http://127.0.0.1:81/pay",
    "mailto:a@b.c",
    "http://[",
    "//",
    "///pay",
    "/\\phish.example/pay",
    "\\\\phish.example/pay",
    "\\/phish.example/pay",
    "/\t/phish.example/pay",
    "http:///pay",
    "http:\\\\phish.example/pay",
    "https:pay",
)
WITHIN = (
    "/pay",
    " pay ",
    "\\pay",
    ".\\pay",
    "http:pay",
    "HTTP:/pay",
    "http:\\pay",
    "/.//pay",
    "..//pay",
    "/..//pay",
    "/p\nay",
    "/pay?to=\\\\phish.example",
    "http:../x:/../pay",
    "/pay#//phish.example",
)
