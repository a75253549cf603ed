# expect: sandbox_file
# says: /etc/passwd
users = open("/etc/passwd").read()  # HERE
