"""Web pages that are served on this machine, to whom they are meant for and to no one else.

The viewer and the monitor are such pages. An application is what it shows; the rest is here.

* `guard`: which requests reach an application: the Host header, who asks, a token; and the headers
  that keep its answers shut.
* `serving`: an application at an address of this machine, for as long as a context lasts.
* `addresses`: what headers, URLs and options say of hosts.
"""
