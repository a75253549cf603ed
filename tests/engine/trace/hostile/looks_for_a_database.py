# expect: module_raised
# says: no database
# in: a copy
import os

ends = (".sqlite3", ".env", ".pem", "id_rsa", "ucutlass_web/settings.py")
hits = [f for folder in ("/app", "/scratch", "/run", "/var", "/tmp", "/srv", "/opt")
        for root, _, names in os.walk(folder) if "/lib/python" not in root for f in names
        if os.path.join(root, f).endswith(ends)]
raise RuntimeError(f"LEAK {hits}" if hits else "no database")  # HERE
