#!/bin/busybox sh
# All that runs in the guest that tests boot with the distribution's kernel.
#
# On its console it writes
#     BERTH-KERNEL ready uuid=<uuid> cpus=<number> mib=<number> boots=<number>
#     BERTH-KERNEL count <number>
# the second ten times a second. `boots` is how often its first disk has met it, 0 without a disk.
# The power button turns it off. So does the word `off` on its console; `reboot` and `panic` do
# what they say.

export PATH=/bin
/bin/busybox mount -t proc none /proc
/bin/busybox mount -t sysfs none /sys
/bin/busybox mount -t devtmpfs none /dev
/bin/busybox --install -s /bin
while read -r module; do
	insmod "/modules/$module" || echo "BERTH-KERNEL cannot load $module"
done </modules/order

boots=0
if [ -b /dev/vda ]; then
	found=$(dd if=/dev/vda bs=512 count=1 2>/dev/null | tr -d '\000')
	boots=$((${found#boots } + 1))
	echo "boots $boots" | dd of=/dev/vda bs=512 conv=sync,fsync 2>/dev/null
fi

for folder in /sys/class/input/event*; do
	case $(cat "$folder/device/name") in
	*Power*)
		{
			# One event is 24 bytes, and less than one cannot be read.
			dd "if=/dev/input/${folder##*/}" of=/dev/null bs=24 count=1 2>/dev/null
			echo "BERTH-KERNEL off"
			poweroff -f
		} &
		;;
	esac
done

memory_kb=$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)
uuid=$(cat /sys/class/dmi/id/product_uuid)
echo "BERTH-KERNEL ready uuid=$uuid cpus=$(nproc) mib=$((memory_kb / 1024)) boots=$boots"

count=0
while sleep 0.1; do
	count=$((count + 1))
	echo "BERTH-KERNEL count $count"
done &

while read -r word; do
	case $word in
	off) poweroff -f ;;
	reboot) reboot -f ;;
	panic) echo c >/proc/sysrq-trigger ;;
	esac
done
while :; do sleep 3600; done
