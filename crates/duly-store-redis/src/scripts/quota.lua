-- Reads what a shard has of a limit that all shards keep together: `pending` or `dead`. See quota.rs.
local function quota_of(num, kind)
  local f = call('HMGET', K .. 'n:' .. num, 'ver', 'deal_' .. kind, 'a_' .. kind, 'm_' .. kind, 'max_' .. kind)
  local used
  if kind == 'dead' then
    used = call('ZCARD', K .. 'dead:' .. num)
  else
    used = tonumber(call('HGET', K .. 'c:' .. num, 'pending') or '0')
  end
  return { ver = f[1] or '', deal = f[2] or '', share = tonumber(f[3] or ''), moved = tonumber(f[4] or '0'),
           max = f[5] or '', used = used, key = K .. 'q:' .. num .. ':' .. kind }
end
