-- Extends a lease (P8).
--
-- KEYS  seq
-- ARGV  1 number of the namespace  2 id  3 nonce  4 name that the caller expects, or ''
--       5 ms to extend by  6 longest time from claim to end, ms
-- reply now, then OK | LOST | INVALID (a token of another namespace) | SLOW (not leased under this nonce: the caller
--       takes the slow path)
local num, id = ARGV[1], ARGV[2]
local ctl = control(num)
local refused
if not ctl then
  refused = 'LOST'
elseif ARGV[4] ~= '' and ARGV[4] ~= ctl.name then
  refused = 'INVALID'
end
local hold = not refused and call('HGET', K .. 'x:' .. num, id)
local lease = hold and lease_of(hold)
if not refused and (not lease or lease.nonce ~= ARGV[3] or is_over(lease)) then refused = 'SLOW' end
if refused then return unchanged(now_text, refused) end
if lease.who == 'C' then
  local till = math.min(now + tonumber(ARGV[5]), lease.since + tonumber(ARGV[6]))
  write('HSET', K .. 'x:' .. num, id, sub(hold, 1, 14) .. time_bytes(till) .. sub(hold, 21))
  write('ZADD', K .. 'leased', digits(till), num .. NUL .. id)
end
flush()
return { digits(now), 'OK' }
