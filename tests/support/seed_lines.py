"""The curl lines of the documents that existing clients were written from, as they stand there."""

ONE_OWNER = """
# Try to own a unit of work for 60 seconds
curl -X POST https://api.octostore.io/locks/deploy-main/acquire \\
-H "Authorization: Bearer ***" \\
-H "Content-Type: application/json" \\
-d '{
"ttl_seconds": 60,
"metadata": "host=runner-7 build=1842"
}'
"""
"""It says: acquired, with `lease_id` and `expires_at`: proceed; held: back off and inspect owner."""

CLAIM_LOOP = """
LOCK="github-issue-1842"
TOKEN="YOUR_TOKEN"

claim=$(curl -s -X POST "https://api.octostore.io/locks/$LOCK/acquire" \\
  -H "Authorization: Bearer ***" \\
  -H "Content-Type: application/json" \\
  -d '{"ttl_seconds":120,"metadata":"runner=agent-3 task=https://github.com/acme/app/issues/1842"}')
"""
"""It says: every agent attempts the same request; one gets `acquired`, the rest `held`. The answer is in `claim`."""
