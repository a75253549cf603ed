# expect: sandbox_network
# says: looks up a network address
import urllib.request

urllib.request.urlopen("http://example.com/")  # HERE
