"""curl lines from the documents of existing clients, unchanged."""

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
"""Expected: `acquired` with `lease_id` and `expires_at` (proceed), or `held` (back off and inspect the owner)."""

CLAIM_LOOP = """
LOCK="github-issue-1842"
TOKEN="YOUR_TOKEN"

claim=$(curl -s -X POST "https://api.octostore.io/locks/$LOCK/acquire" \\
  -H "Authorization: Bearer ***" \\
  -H "Content-Type: application/json" \\
  -d '{"ttl_seconds":120,"metadata":"runner=agent-3 task=https://github.com/acme/app/issues/1842"}')
"""
"""Expected: of all agents that send this, one gets `acquired` and the others `held`. The response is in `claim`."""
