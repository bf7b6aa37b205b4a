-- Closes a namespace in this shard to whatever would make it hold more, while somebody who wants to end
-- it looks whether it is empty everywhere; opens it again. See ending.rs.
--
-- KEYS  seq
-- ARGV  1 namespace  2 number  3 'close', 'open' or 'look'  4 whose gate it is  5 how many ms it may last
-- reply NONE now (this shard has no such namespace) | OPEN now |
--       SHUT now pending dead (close: it is the caller's) |
--       HELD now whose, '1' when it has lasted too long, or longer than any by a clock that has stepped back
local name, num, what, who = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local here = num_of(name) == num
local gate = here and call('HGET', K .. 'n:' .. num, 'gate')
local till, whose = match(gate or '', '^(%d+) (%x+)$')
local pending = call('HGET', K .. 'c:' .. num, 'pending') or '0'
local dead = call('ZCARD', K .. 'dead:' .. num)
if here and what == 'open' and whose == who then
  write('HDEL', K .. 'n:' .. num, 'gate')
  write('SPUBLISH', K .. 'wake', '')
  whose = nil
elseif here and what == 'close' and not whose then
  write('HSET', K .. 'n:' .. num, 'gate', digits(now + tonumber(ARGV[5])) .. ' ' .. who)
  whose = who
end
flush()
if not here then return { 'NONE', digits(now) } end
if not whose then return { 'OPEN', digits(now) } end
if what == 'close' and whose == who then return { 'SHUT', digits(now), pending, dead } end
local lasts = tonumber(till) - now
return { 'HELD', digits(now), whose, (lasts <= 0 or lasts > tonumber(ARGV[5])) and '1' or '0' }
