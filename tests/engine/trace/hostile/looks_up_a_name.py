# expect: sandbox_network
# says: looks up a network address
# in: a copy
import urllib.request

urllib.request.urlopen("http://example.com/")  # HERE
